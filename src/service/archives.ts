/** Makes the backup storage that the configuration names: a directory, a bucket or a value. */
import { resolve } from 'node:path'
import type { z } from 'zod'
import { directory } from '../drivers/archives/directory.ts'
import { s3 } from '../drivers/archives/s3.ts'
import type { Archives } from '../tenants/transfers/archive/port.ts'
import type { Backups } from './settings/backups.ts'

interface Paths {
  /** Directory of relative paths. */
  readonly base: string
  /** Directory of the archives if the settings name no storage. */
  readonly otherwise: string
}

export function archivesOf(settings: Exclude<z.output<typeof Backups>, false>, { base, otherwise }: Paths): Archives {
  const { archives } = settings
  if (archives && !('driver' in archives)) return archives
  if (archives?.driver === 's3') {
    const { driver: _, ...options } = archives
    return s3(options)
  }
  if (settings.s3) return s3(settings.s3)
  const path = archives?.path ?? settings.directory
  return directory({ path: path === undefined ? otherwise : resolve(base, path) })
}
