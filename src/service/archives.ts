/** Makes the backup storage that the configuration names: a directory or a bucket. */
import type { z } from 'zod'
import { directory } from '../drivers/archives/directory.ts'
import { s3 } from '../drivers/archives/s3.ts'
import type { Archives } from '../tenants/transfers/archive/port.ts'
import type { Backups } from './settings/backups.ts'

/** @param otherwise the directory if the configuration names neither directory nor bucket */
export function archivesOf(settings: z.output<typeof Backups>, otherwise: string): Archives {
  return settings.s3 ? s3(settings.s3) : directory({ path: settings.directory ?? otherwise })
}
