/** A backup of a tenant. */
import type { Result } from '../../../console/api/contract.ts'

export type Backup = Result<'backups.get'>
