/** Why an archive is refused, in sentences for who wanted to restore it. Names in them are those that the archive should have. */
import type { TenancyError } from '../../../kernel/base/errors.ts'
import { BackupIncompatible } from '../../isolation/copy.ts'

export const foreign = (why: string, cause?: unknown): TenancyError =>
  BackupIncompatible(`This is not a backup that was made here: ${why}.`, { cause })

export const truncated = (cause?: unknown): TenancyError =>
  BackupIncompatible('The backup is truncated: its end is missing.', { cause })

export const altered = (why: string, cause?: unknown): TenancyError =>
  BackupIncompatible(`The backup is damaged or was altered: ${why}.`, { cause })
