import { defineError } from '../../../kernel/base/errors.ts'

export const BackupNotFound = defineError('E_BACKUP_NOT_FOUND', 404, 'Backup not found')
export const BackupExists = defineError('E_BACKUP_EXISTS', 409, 'Backup already registered')
export const TransferNotFound = defineError('E_TRANSFER_NOT_FOUND', 404, 'Transfer not found')
/** A tenant has at most one backup and one replacement of its storage in progress. */
export const TransferInProgress = defineError('E_TRANSFER_IN_PROGRESS', 409, 'Another transfer is in progress')
export const TransferEnded = defineError('E_TRANSFER_ENDED', 409, 'Transfer has ended')
export const TransferCancelled = defineError('E_TRANSFER_CANCELLED', 409, 'Transfer was cancelled')
export const BackupsNotConfigured = defineError('E_BACKUPS_NOT_CONFIGURED', 409, 'No backup storage is configured')
/** The configured backup storage does not exist, is not writable, or belongs to another installation. */
export const ArchivesUnusable = defineError('E_BACKUPS_UNUSABLE', 409, 'Backup storage cannot be used')
/** Thrown by a command after it has reported a failed transfer. */
export const TransferFailed = defineError('E_TRANSFER_FAILED', 500, 'Transfer failed')
