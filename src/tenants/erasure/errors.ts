import { defineError } from '../../kernel/base/errors.ts'

export const ConfirmationMismatch = defineError('E_CONFIRMATION_MISMATCH', 422, 'The confirmation is not the tenant id')
export const ErasureNotFound = defineError('E_ERASURE_NOT_FOUND', 404, 'Erasure not found')
