/** Errors of invalid archives. Names in messages are expected names, never names read from the archive. */
import type { TenancyError } from '../../../kernel/base/errors.ts'
import { BackupIncompatible } from '../../isolation/copy.ts'

export const foreign = (why: string, cause?: unknown): TenancyError =>
  BackupIncompatible(`The file is not a Tenantry backup: ${why}.`, { cause })

export const truncated = (cause?: unknown): TenancyError =>
  BackupIncompatible('The backup is truncated: its end is missing.', { cause })

export const altered = (why: string, cause?: unknown): TenancyError =>
  BackupIncompatible(`The backup is damaged or was altered: ${why}.`, { cause })
