/** A file system of 64 MB (tmpfs) with a tablespace, which a test fills and empties. It requires the right to mount. */
import { execFile } from 'node:child_process'
import { chown, mkdir, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findPostgresPrograms } from '../../src/service/postgres-programs.ts'

const run = promisify(execFile)
const BLOCK = Buffer.alloc(65_536)

export interface SmallDisk {
  /** Directory of the tablespace. Tables and temporary files of its databases are on this disk. */
  readonly tablespace: string
  /** Writes until the file system has no free page. */
  fill(): Promise<void>
  free(): Promise<void>
  /** Call it after the server has stopped. */
  remove(): Promise<void>
}

export async function createSmallDisk(): Promise<SmallDisk> {
  const disk = await mkdtemp(join(tmpdir(), 'tenantry-disk-'))
  const tablespace = join(disk, 'tablespace')
  const ballast = join(disk, 'ballast')
  await run('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', disk])
  await mkdir(tablespace, { mode: 0o700 })
  const { user } = await findPostgresPrograms(tablespace)
  if (user) await chown(tablespace, user.uid, user.gid)
  return {
    tablespace,
    async fill() {
      const file = await open(ballast, 'w')
      try {
        for (;;) await file.write(BLOCK)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      } finally {
        await file.close()
      }
    },
    free: () => rm(ballast),
    async remove() {
      await run('umount', [disk])
      await rm(disk, { recursive: true })
    },
  }
}
