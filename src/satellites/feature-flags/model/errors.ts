import { defineError } from '../../../kernel/base/errors.ts'

export const FlagNotFound = defineError('E_FLAG_NOT_FOUND', 404, 'Flag not found')
