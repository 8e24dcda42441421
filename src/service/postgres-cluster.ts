/**
 * Creates the files of a PostgreSQL cluster, completely or not at all.
 *
 *   <directory>.new-<random>/cluster   working directory of initdb; after a kill, the next start removes it
 *   <directory>                        created by one rename, after initdb has synced its files
 *
 * The name is random because the initdb of a killed start may still write to its own directory.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  lchownSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { DependencyUnavailable } from '../kernel/base/errors.ts'
import type { PostgresPrograms } from './postgres-programs.ts'

export const SUPERUSER = 'tenantry'

/** Permission bits that PostgreSQL rejects on its directory. */
const OPEN_TO_OTHERS = 0o027

/** The path under which PostgreSQL knows the directory, with links resolved. Creates the parent. */
export function canonicalPath(directory: string): string {
  const path = resolve(directory)
  mkdirSync(dirname(path), { recursive: true })
  return existsSync(path) ? realpathSync(path) : join(realpathSync(dirname(path)), basename(path))
}

/** Whether a cluster had to be created. */
export async function ensureCluster(directory: string, password: string, programs: PostgresPrograms): Promise<boolean> {
  removeLeftovers(directory)
  // First: an unreadable directory of another user looks empty to the following checks.
  if (!programs.user) assertOwnDirectory(directory)
  if (existsSync(join(directory, 'PG_VERSION'))) {
    restoreAccess(directory, programs)
    return false
  }
  if (existsSync(directory) && readdirSync(directory).length > 0) {
    throw DependencyUnavailable(
      `${directory} contains files but no PostgreSQL cluster. Empty it, or choose another directory.`,
    )
  }
  await makeCluster(directory, password, programs)
  return true
}

const workingPlaces = (directory: string) => `${basename(directory)}.new-`

function removeLeftovers(directory: string): void {
  for (const name of readdirSync(dirname(directory))) {
    if (!name.startsWith(workingPlaces(directory))) continue
    try {
      rmSync(join(dirname(directory), name), { recursive: true, force: true })
    } catch {
      // The initdb of a killed start still writes there. The next start removes the rest.
    }
  }
}

async function makeCluster(directory: string, password: string, programs: PostgresPrograms): Promise<void> {
  const place = join(dirname(directory), `${workingPlaces(directory)}${randomBytes(6).toString('hex')}`)
  const cluster = join(place, 'cluster')
  const passwordFile = join(place, 'password')
  mkdirSync(place, { mode: 0o700 })
  try {
    writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
    for (const path of [passwordFile, place]) give(path, programs)
    await initdb(programs, [
      ...['--pgdata', cluster, '--username', SUPERUSER, '--pwfile', passwordFile, '--auth', 'scram-sha-256'],
      // PostgreSQL's own C.UTF-8: the same order and case rules on every machine, independent of installed locales.
      ...['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
      // One call for the file system in place of one for each of a thousand files.
      ...(process.platform === 'linux' ? ['--sync-method', 'syncfs'] : []),
    ])
    renameSync(cluster, directory)
    syncDirectory(dirname(directory))
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

async function initdb(programs: PostgresPrograms, args: readonly string[]): Promise<void> {
  const child = programs.spawn(programs.initdb, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code, signal] = await once(child, 'close').catch((cause: Error) => {
    // ENOENT for an existing program: its loader is missing, because these binaries need glibc.
    throw DependencyUnavailable(`Cannot run initdb (${cause.message}). Set DATABASE_URL.`, { cause })
  })
  if (code !== 0) throw DependencyUnavailable(`initdb failed (${code ?? signal}): ${output.trim()}`)
}

function assertOwnDirectory(directory: string): void {
  const uid = statSync(directory, { throwIfNoEntry: false })?.uid
  if (uid === undefined || uid === process.getuid?.()) return
  throw DependencyUnavailable(`${directory} belongs to user ${uid}. Start as that user, or as root.`)
}

/** Repairs owner and mode of a copied cluster. PostgreSQL rejects a directory that is open to others or belongs to root. */
function restoreAccess(directory: string, { user }: PostgresPrograms): void {
  const { mode, uid } = statSync(directory)
  if (mode & OPEN_TO_OTHERS) chmodSync(directory, 0o700)
  if (!user || uid !== 0) return
  for (const entry of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    lchownSync(join(directory, entry), user.uid, user.gid)
  }
  // Last: ownership by root marks an unfinished repair.
  chownSync(directory, user.uid, user.gid)
}

function give(path: string, { user }: PostgresPrograms): void {
  if (user) chownSync(path, user.uid, user.gid)
}

function syncDirectory(directory: string): void {
  const handle = openSync(directory, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
