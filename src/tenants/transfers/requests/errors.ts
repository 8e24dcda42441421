import { defineError } from '../../../kernel/base/errors.ts'

export const BackupNotFound = defineError('E_BACKUP_NOT_FOUND', 404, 'Backup not found')
export const BackupExists = defineError('E_BACKUP_EXISTS', 409, 'The backup is known already')
export const TransferNotFound = defineError('E_TRANSFER_NOT_FOUND', 404, 'Transfer not found')
/** Of one tenant at most one is made at a time, and its storage is replaced by one at a time. */
export const TransferInProgress = defineError('E_TRANSFER_IN_PROGRESS', 409, 'Another transfer is in progress')
export const TransferEnded = defineError('E_TRANSFER_ENDED', 409, 'The transfer has ended')
export const TransferCancelled = defineError('E_TRANSFER_CANCELLED', 409, 'The transfer was cancelled')
export const BackupsNotConfigured = defineError('E_BACKUPS_NOT_CONFIGURED', 409, 'No place for backups is configured')
/** As it is configured: not there, not to be written to, of others. */
export const ArchivesUnusable = defineError('E_BACKUPS_UNUSABLE', 409, 'The place of the backups cannot be used')
/** What a command throws after it has told of a transfer that failed. */
export const TransferFailed = defineError('E_TRANSFER_FAILED', 500, 'The transfer failed')
