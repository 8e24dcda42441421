/**
 * A real PostgreSQL as a child of ours, with its files in one directory.
 *
 *   no cluster ──initdb──► stopped ──launch──► starting ──► ready ──stop()──► stopped
 *                             ▲                                │
 *                             └── stale pid file removed ◄─────┤ kill -9 of PostgreSQL: the next launch recovers
 *                                 adopt() ──► ready ◄──────────┘ kill -9 of ours: the orphan keeps running
 *
 *   adopt()   a postmaster of this directory is already there: one that shuts down is waited for, one that starts or
 *             recovers too; one that answers and was started as we would start it is kept; any other is stopped
 *   launch()  a new one on a free port. Losing a race (the port, or an orphan that began a moment earlier) goes round
 *
 * Invariants: one caller at a time for one directory (data-directory.ts holds the lock). The server is in a session of
 * its own, so Ctrl-C reaches it only through stop(), after our own drain. It writes its log to `<directory>.log` and not
 * to a pipe, so neither our death nor our standing still blocks it. It does not keep our process alive: whoever started
 * it stops it. It listens on 127.0.0.1 only, and takes passwords only.
 */
import { closeSync, fchownSync, openSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { DependencyUnavailable } from '../kernel/base/errors.ts'
import { canonicalPath, ensureCluster, SUPERUSER } from './postgres-cluster.ts'
import { findPostgresPrograms, type PostgresPrograms } from './postgres-programs.ts'
import {
  commandOf,
  isPostmasterOf,
  isTaken,
  postmasterArguments,
  readPidFile,
  removePidFile,
  stopPostmaster,
} from './postmaster.ts'

const DATABASE = 'tenantry'
const POLL_MS = 4
const RETRY_AFTER_MS = 50
/** For lost races and for the last backends of a killed server; recovery is not limited. */
const RETRY_FOR_MS = 30_000
const HALF_WRITTEN_MS = 200
const CONNECT_TIMEOUT_MS = 5_000
const QUERY_TIMEOUT_MS = 30_000
const LOG_MAX_BYTES = 1_000_000

const PASSWORD_REFUSED = '28P01'
const NO_SUCH_DATABASE = '3D000'
/** What PostgreSQL says when going round helps: someone took the port, or the server before is not quite gone. */
const PASSING = /could not create any TCP\/IP sockets|lock file "postmaster\.pid"|pre-existing shared memory block/

/** A small footprint, and full durability: fsync, full_page_writes and synchronous_commit stay on. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  // A socket's path may have 107 characters; a data directory's may have more.
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '64MB',
  huge_pages: 'off',
  io_method: 'sync',
  jit: 'off',
  max_wal_size: '512MB',
  // Many schemas with the same tables: dropping or dumping one takes a lock for each table.
  max_locks_per_transaction: '256',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_logical_replication_workers: '0',
  // Queries of a process killed with -9 end, instead of holding their locks until they are done.
  client_connection_check_interval: '5s',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // Errors of statements are answered to us, and logged by us if they matter.
  log_min_messages: 'log',
  log_checkpoints: 'off',
}

export interface EmbeddedPostgresOptions {
  /** Where the cluster is, or will be made: absent, or empty. */
  readonly directory: string
  /** The superuser's; must be the one the cluster was made with. */
  readonly password: string
  /** More settings, or others than ours; a running server with other settings is restarted. */
  readonly settings?: Readonly<Record<string, string>>
  /** What was found and done, one line each; PostgreSQL's own log is the file `<directory>.log`. */
  readonly log?: (line: string) => void
}

export interface EmbeddedPostgres {
  /** `postgres://tenantry:<password>@127.0.0.1:<port>/tenantry` */
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Whether it was found running, left by a process that was killed. */
  readonly isAdopted: boolean
  /** Returns when it is gone; at once when it is gone already. */
  stop(): Promise<void>
}

interface Start {
  readonly directory: string
  readonly password: string
  readonly settings: Readonly<Record<string, string>>
  readonly log: (line: string) => void
  readonly programs: PostgresPrograms
}

interface Postmaster {
  readonly pid: number
  readonly port: number
}

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { password, log = () => {} } = options
  const directory = canonicalPath(options.directory)
  const programs = await findPostgresPrograms(directory)
  if (await ensureCluster(directory, password, programs)) log(`made a PostgreSQL cluster in ${directory}`)

  const start: Start = { directory, password, settings: { ...SETTINGS, ...options.settings }, log, programs }
  const until = Date.now() + RETRY_FOR_MS
  for (;;) {
    const adopted = await adopt(start)
    if (adopted) return embedded(start, adopted, true)
    const launched = await launch(start)
    if (typeof launched === 'object') return embedded(start, launched, false)
    if (!PASSING.test(launched) || Date.now() > until) {
      throw DependencyUnavailable(`PostgreSQL in ${directory} does not start: ${launched}`)
    }
    await sleep(RETRY_AFTER_MS)
  }
}

function embedded(
  { directory, password, log }: Start,
  { pid, port }: Postmaster,
  isAdopted: boolean,
): EmbeddedPostgres {
  let stopped: Promise<void> | undefined
  return {
    url: `postgres://${SUPERUSER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${DATABASE}`,
    port,
    pid,
    isAdopted,
    stop: () => (stopped ??= stopPostmaster(directory, pid, log)),
  }
}

/** Undefined when nothing runs in the directory, or no longer. */
async function adopt(start: Start): Promise<Postmaster | undefined> {
  const { directory, log } = start
  let found = readPidFile(directory)
  if (found && Number.isNaN(found.pid)) {
    await sleep(HALF_WRITTEN_MS)
    found = readPidFile(directory)
  }
  if (!found) return undefined
  const { pid } = found
  if (!isPostmasterOf(directory, pid)) {
    // PostgreSQL removes it after a check of its own, but not while any process of its user has that number.
    if (isTaken(pid)) removePidFile(directory)
    log('the last PostgreSQL here was killed; a new one recovers its data')
    return undefined
  }

  log(`found PostgreSQL running (process ${pid})`)
  while (found && isPostmasterOf(directory, pid) && ['', 'starting'].includes(found.status)) {
    await sleep(POLL_MS)
    found = readPidFile(directory)
  }
  if (found?.pid === pid && found.status === 'ready' && commandOf(pid) === commandFor(start, found.port)) {
    if (await isResponding(start, found)) return found
    log('it does not answer')
  }
  log('stopping it')
  await stopPostmaster(directory, pid, log)
  return undefined
}

async function isResponding(start: Start, postmaster: Postmaster): Promise<boolean> {
  try {
    return (await dataDirectoryOf(start, postmaster.port)) === start.directory
  } catch (error) {
    if (isPasswordRejected(error)) throw wrongPassword(start)
    return false
  }
}

/** What it said, when it ended instead of getting ready. */
async function launch(start: Start): Promise<Postmaster | string> {
  const { directory, programs } = start
  const port = await freePort()
  const logFile = openLog(`${directory}.log`, programs)
  const child = programs.spawn(programs.postgres, argumentsFor(start, port), {
    detached: true,
    stdio: ['ignore', logFile.handle, logFile.handle],
  })
  closeSync(logFile.handle)
  let end: string | undefined
  child.once('error', (error) => {
    end = error.message
  })
  child.once('exit', (code, signal) => {
    end = `it ended (${code ?? signal})`
  })
  child.unref()

  while (end === undefined) {
    const found = readPidFile(directory)
    if (child.pid !== undefined && found?.pid === child.pid && found.status === 'ready') {
      const postmaster = { pid: child.pid, port }
      await openFirst(start, postmaster)
      return postmaster
    }
    await sleep(POLL_MS)
  }
  return logFile.added() || end
}

/** The first connection: proves the password, and makes the database where there is none. */
async function openFirst(start: Start, { pid, port }: Postmaster): Promise<void> {
  try {
    await dataDirectoryOf(start, port)
  } catch (error) {
    await stopPostmaster(start.directory, pid, start.log)
    throw isPasswordRejected(error) ? wrongPassword(start) : error
  }
}

const argumentsFor = ({ directory, settings }: Start, port: number): string[] => [
  ...postmasterArguments(directory, port),
  ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
]

const commandFor = (start: Start, port: number): string =>
  [start.programs.postgres, ...argumentsFor(start, port)].join(' ')

async function dataDirectoryOf(start: Start, port: number): Promise<string> {
  const question = 'select setting from pg_settings where name = $$data_directory$$'
  try {
    return await query(start, port, DATABASE, question)
  } catch (error) {
    if ((error as pg.DatabaseError).code !== NO_SUCH_DATABASE) throw error
    await query(start, port, 'postgres', `create database ${DATABASE}`)
    // A login of one tenant (isolation driver database-pg) connects to its own database only.
    for (const name of [DATABASE, 'postgres', 'template1']) {
      await query(start, port, 'postgres', `revoke connect, temporary on database ${name} from public`)
    }
    return query(start, port, DATABASE, question)
  }
}

async function query({ password }: Start, port: number, database: string, sql: string): Promise<string> {
  const client = new pg.Client({
    ...{ host: '127.0.0.1', port, user: SUPERUSER, password, database, ssl: false },
    ...{ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, query_timeout: QUERY_TIMEOUT_MS },
  })
  try {
    await client.connect()
    const { rows } = await client.query<{ setting: string }>(sql)
    return rows[0]?.setting ?? ''
  } finally {
    await client.end()
  }
}

const isPasswordRejected = (error: unknown): boolean => (error as pg.DatabaseError).code === PASSWORD_REFUSED

const wrongPassword = ({ directory }: Start) =>
  DependencyUnavailable(
    `PostgreSQL in ${directory} was made with another password: bring its password file back, or remove the directory`,
  )

/** Free now; whoever takes it before PostgreSQL does makes `launch` go round. */
async function freePort(): Promise<number> {
  const server = createServer()
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.once('error', reject).listen(0, '127.0.0.1', () => {
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    server.close(() => resolve(port))
  })
  return promise
}

function openLog(path: string, { user }: PostgresPrograms): { handle: number; added(): string } {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const isFull = size > LOG_MAX_BYTES
  const before = isFull ? 0 : size
  const handle = openSync(path, isFull ? 'w' : 'a', 0o600)
  if (user) fchownSync(handle, user.uid, user.gid)
  return { handle, added: () => readFileSync(path).subarray(before).toString('utf8').trim() }
}
