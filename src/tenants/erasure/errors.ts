import { defineError } from '../../kernel/base/errors.ts'

export const ConfirmationMismatch = defineError('E_CONFIRMATION_MISMATCH', 422, 'The confirmation is not the tenant id')
export const ErasureNotFound = defineError('E_ERASURE_NOT_FOUND', 404, 'Erasure not found')
export const ErasureExists = defineError('E_ERASURE_EXISTS', 409, 'The tenant is erased with another choice')
export const ErasurePending = defineError('E_ERASURE_PENDING', 503, 'The erasure waits for a system')
