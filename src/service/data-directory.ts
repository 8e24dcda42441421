/**
 * Manages the data directory (`.tenantry`) of one installation.
 *
 *   admin-token, app-key, postgres-password   secrets, generated once, readable by their owner only
 *   postgres/, postgres.log                   the embedded PostgreSQL (embedded-postgres.ts)
 *   lock                                      held by the one process that runs on this directory
 *   running.json                              address of that process; ignored while the lock is free
 *
 * The lock is SQLite's exclusive lock on an empty database. The operating system releases it with the process, and two starts
 * cannot both get it.
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
import type { DatabaseSync } from 'node:sqlite'
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

/** Announcement of the process that holds the lock. */
export interface Running {
  readonly pid: number
  /** URL of its HTTP server; null for a command without a server. */
  readonly url: string | null
  /** URL of its embedded PostgreSQL. It contains the password: never print it. */
  readonly databaseUrl?: string
  /** ISO 8601. */
  readonly startedAt: string
}

export type Acquired =
  | {
      readonly held: true
      /** Publishes the addresses of this process. A later call replaces them. */
      announce(place: Pick<Running, 'url' | 'databaseUrl'>): void
      /** Frees the lock and removes `running.json`. Idempotent. */
      release(): void
    }
  /** Another process holds the lock; `running` is null until that process has announced itself. */
  | { readonly held: false; readonly running: Running | null }

/** Creates the directory if it is missing. Returns its canonical absolute path. @throws ConfigurationError if it is unusable */
export function openDataDirectory(path: string): string {
  try {
    if (!existsSync(path)) {
      mkdirSync(path, { recursive: true })
      // PostgreSQL runs as another user if this process is root. That user must be able to enter the directory.
      chmodSync(path, process.getuid?.() === 0 ? 0o711 : 0o700)
    }
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    // The directory often is in a checkout and contains secrets.
    if (readdirSync(path).length === 0) writeFileSync(join(path, '.gitignore'), '*\n')
    return realpathSync(path)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['EACCES', 'EPERM', 'EROFS'].includes(code)) throw error
    throw new ConfigurationError([`Cannot write to ${path} (${code}). Set TENANTRY_DATA_DIR to a writable directory.`])
  }
}

/** Directory of the embedded PostgreSQL's files. */
export const embeddedCluster = (directory: string): string => join(directory, 'postgres')

export const hasCluster = (directory: string): boolean => existsSync(join(embeddedCluster(directory), 'PG_VERSION'))

/** Returns the secret of this directory. The first call generates it; all processes get the same one. */
export function keptSecret(directory: string, name: SecretName): string {
  const path = join(directory, name)
  if (!existsSync(path)) {
    const draft = writeDraft(path, `${SECRETS[name]()}\n`)
    try {
      // Unlike a rename, a link never replaces a file: concurrent processes read the secret of the first one.
      linkSync(draft, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      rmSync(draft, { force: true })
    }
  }
  const secret = readFileSync(path, 'utf8').trim()
  if (!secret)
    throw new ConfigurationError([
      `${path} is empty. Restore its content, or remove the file to generate a new secret.`,
    ])
  return secret
}

/** Held locks. A connection that is collected frees its lock, so the set keeps them. */
const locks = new Set<DatabaseSync>()

export function acquire(directory: string): Acquired {
  const lock = takeLock(join(directory, 'lock'))
  const announcement = join(directory, 'running.json')
  if (!lock) return { held: false, running: readRunning(directory) }

  // A predecessor that was killed could not remove its announcement.
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

/** Announcement of the process on this directory. Null if there is none, or if its process is dead. */
export function readRunning(directory: string): Running | null {
  try {
    const running = JSON.parse(readFileSync(join(directory, 'running.json'), 'utf8')) as Running
    return isAlive(running.pid) ? running : null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Loads SQLite at the first lock: Node 22 prints a warning when it is loaded. */
function takeLock(path: string): DatabaseSync | undefined {
  const sqlite = process.getBuiltinModule('node:sqlite')
  const lock = new sqlite.DatabaseSync(path, { open: false })
  try {
    lock.open()
    // By name: opening and closing the file would free a lock that this process already has on it.
    chmodSync(path, OWNER_ONLY)
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    if (lock.isOpen) lock.close()
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined
    throw new Error(`Cannot lock ${path}: ${(error as Error).message}`, { cause: error })
  }
  locks.add(lock)
  return lock
}

/** False for an announcement that a killed predecessor of the present holder has left. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Writes a complete file next to its final path, synced to disk and readable by its owner only. */
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
