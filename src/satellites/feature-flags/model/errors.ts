import { defineError } from '../../../kernel/base/errors.ts'

export const FlagNotFound = defineError('E_FLAG_NOT_FOUND', 404, 'There is no such flag')
