/**
 * The data directory (`.tenantry`): what one installation keeps on its machine.
 *
 *   admin-token, app-key, postgres-password   secrets, made once and kept, readable by their owner only
 *   postgres/, postgres.log                   the embedded PostgreSQL (embedded-postgres.ts)
 *   lock                                      held by the one process that runs on this directory
 *   running.json                              where that process can be reached; says nothing while the lock is free
 *
 * The lock is SQLite's exclusive lock on an empty database: the operating system's own, so it ends with the process
 * however the process ends, two starts cannot both get it, and there is no pid to be wrong about.
 */
import { randomBytes } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ConfigurationError } from './config.ts'

const OWNER_ONLY = 0o600
const SQLITE_BUSY = 5

const SECRETS = {
  'admin-token': () => randomBytes(32).toString('base64url'),
  /** 32 bytes in base64: the form of TENANTRY_APP_KEY. */
  'app-key': () => randomBytes(32).toString('base64'),
  'postgres-password': () => randomBytes(32).toString('base64url'),
}

export type SecretName = keyof typeof SECRETS

/** What the holder of the lock says about itself. */
export interface Running {
  readonly pid: number
  /** Of its HTTP server; null for a command that runs without one. */
  readonly url: string | null
  /** Of its embedded PostgreSQL. Holds the password, as the whole file does: never print it. */
  readonly databaseUrl?: string
  /** ISO 8601. */
  readonly startedAt: string
}

export type Acquired =
  | {
      readonly held: true
      /** Tell others where we are; may be said again when it changes. */
      announce(place: Pick<Running, 'url' | 'databaseUrl'>): void
      /** Free for others, and `running.json` is gone. May be called twice. */
      release(): void
    }
  /** Someone else holds it; `running` is null while they have not announced themselves. */
  | { readonly held: false; readonly running: Running | null }

/** Makes it where it is missing, and returns its one absolute path. Throws ConfigurationError when it cannot be used. */
export function openDataDirectory(path: string): string {
  try {
    if (!existsSync(path)) {
      mkdirSync(path, { recursive: true })
      // As root the PostgreSQL inside runs as another user, who must be able to pass; there is nothing else to see.
      chmodSync(path, process.getuid?.() === 0 ? 0o711 : 0o700)
    }
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    // It often lies in a checkout, and holds secrets.
    if (readdirSync(path).length === 0) writeFileSync(join(path, '.gitignore'), '*\n')
    return realpathSync(path)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['EACCES', 'EPERM', 'EROFS'].includes(code)) throw error
    throw new ConfigurationError([`${path}: ${code}; set TENANTRY_DATA_DIR to a directory you may write to`])
  }
}

/** The same answer for ever, on this directory; made by the first who asks. */
export function keptSecret(directory: string, name: SecretName): string {
  const path = join(directory, name)
  if (!existsSync(path)) {
    const draft = writeDraft(path, `${SECRETS[name]()}\n`)
    try {
      // Unlike a rename it never replaces: of two processes asking at once, both read the first one's.
      linkSync(draft, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      rmSync(draft, { force: true })
    }
  }
  const secret = readFileSync(path, 'utf8').trim()
  if (!secret) throw new Error(`${path} is empty: bring its content back, or remove the file to make a new one`)
  return secret
}

/** A closed connection is a freed lock, so none may be collected while it is held. */
const locks = new Set<DatabaseSync>()

export function acquire(directory: string): Acquired {
  const lock = takeLock(join(directory, 'lock'))
  const announcement = join(directory, 'running.json')
  if (!lock) return { held: false, running: readRunning(directory) }

  // A predecessor that was killed could not remove its own.
  rmSync(announcement, { force: true })
  const startedAt = new Date().toISOString()
  return {
    held: true,
    announce: ({ url, databaseUrl }) => {
      const running: Running = { pid: process.pid, url, databaseUrl, startedAt }
      renameSync(writeDraft(announcement, `${JSON.stringify(running)}\n`), announcement)
    },
    release: () => {
      if (!locks.delete(lock)) return
      rmSync(announcement, { force: true })
      lock.close()
    },
  }
}

/** Who runs on this directory, as far as it has said so. A file left by a process that was killed says nothing. */
export function readRunning(directory: string): Running | null {
  try {
    const running = JSON.parse(readFileSync(join(directory, 'running.json'), 'utf8')) as Running
    return isAlive(running.pid) ? running : null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

function takeLock(path: string): DatabaseSync | undefined {
  const lock = new DatabaseSync(path, { open: false })
  try {
    lock.open()
    // By name: opening the file and closing it again would free a lock that this process already has on it.
    chmodSync(path, OWNER_ONLY)
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    if (lock.isOpen) lock.close()
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined
    throw new Error(`${path} cannot be locked: ${(error as Error).message}`, { cause: error })
  }
  locks.add(lock)
  return lock
}

/** Between taking the lock and removing its killed predecessor's announcement, a holder has not announced itself. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** A whole file beside the one it will become, on the disk and readable by its owner only. */
function writeDraft(path: string, text: string): string {
  const draft = `${path}.${randomBytes(6).toString('hex')}.new`
  const handle = openSync(draft, 'wx', OWNER_ONLY)
  try {
    writeFileSync(handle, text)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  return draft
}
