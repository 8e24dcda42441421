/**
 * Runs a PostgreSQL server as a child process, with its files in one directory.
 *
 *   no cluster ──initdb──► stopped ──launch──► starting ──► ready ──stop()──► stopped
 *                             ▲                                │
 *                             └── stale pid file removed ◄─────┤ kill -9 of PostgreSQL: the next launch recovers
 *                                 adopt() ──► ready ◄──────────┘ kill -9 of this process: the server keeps running
 *
 *   adopt()   finds a running postmaster of this directory. Waits while it starts, recovers or shuts down. Keeps it if it responds
 *             and has the same arguments as launch() would use; otherwise stops it.
 *   launch()  starts one on a free port. A lost race (for the port, or with an orphaned server) repeats the loop.
 *
 * - The lock of data-directory.ts allows one caller at a time for one directory.
 * - The server has its own session, so Ctrl-C reaches it only through stop(), after this process has drained.
 * - It logs to `<directory>.log`, not to a pipe, so this process cannot block it.
 * - It listens on 127.0.0.1 only and requires the password.
 */
import { closeSync, fchownSync, openSync, readFileSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { DependencyUnavailable } from '../kernel/base/errors.ts'
import { canonicalPath, ensureCluster, SUPERUSER } from './postgres-cluster.ts'
import { findPostgresPrograms, type PostgresPrograms } from './postgres-programs.ts'
import {
  commandOf,
  isPostmasterOf,
  isRunningPostmaster,
  isTaken,
  postmasterArguments,
  readPidFile,
  removePidFile,
  stopPostmaster,
  withoutRejections,
} from './postmaster.ts'

const DATABASE = 'tenantry'
const POLL_MS = 4
const RETRY_AFTER_MS = 50
/** Limit for lost races and for the last backends of a killed server. Recovery has no limit. */
const RETRY_FOR_MS = 30_000
const HALF_WRITTEN_MS = 200
const CONNECT_TIMEOUT_MS = 5_000
const QUERY_TIMEOUT_MS = 30_000
const LOG_MAX_BYTES = 1_000_000

const PASSWORD_REFUSED = '28P01'
const NO_SUCH_DATABASE = '3D000'
/** Messages of PostgreSQL after which another attempt helps: the port was taken, or the former server is still ending. */
const PASSING = /could not create any TCP\/IP sockets|lock file "postmaster\.pid"|pre-existing shared memory block/

/** Small memory use with full durability: fsync, full_page_writes and synchronous_commit stay on. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  // A socket path is limited to 107 characters. The path of a data directory can be longer.
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '64MB',
  huge_pages: 'off',
  io_method: 'sync',
  jit: 'off',
  max_wal_size: '512MB',
  // Many schemas have the same tables; to drop or dump one takes a lock for each table.
  max_locks_per_transaction: '256',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_logical_replication_workers: '0',
  // Queries of a killed process end and release their locks.
  client_connection_check_interval: '5s',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // Errors of statements are returned to the client, which logs them if they matter.
  log_min_messages: 'log',
  log_checkpoints: 'off',
}

export interface EmbeddedPostgresOptions {
  /** Directory of the cluster; absent or empty before the first start. */
  readonly directory: string
  /** Password of the superuser; the one that the cluster was created with. */
  readonly password: string
  /** Port of an earlier server. Its cluster must exist: none is created. Default: a free port. */
  readonly port?: number
  /** Additional or overriding settings. A running server with other settings is restarted. */
  readonly settings?: Readonly<Record<string, string>>
  /** Receives one line for each step. The server's own log is `<directory>.log`. */
  readonly log?: (line: string) => void
}

export interface EmbeddedPostgres {
  /** `postgres://tenantry:<password>@127.0.0.1:<port>/tenantry` */
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Whether the server of a killed process was still running. */
  readonly isAdopted: boolean
  isRunning(): boolean
  /** Resolves when the server has ended. Idempotent. */
  stop(): Promise<void>
}

interface Start {
  readonly directory: string
  readonly password: string
  readonly port: number | undefined
  readonly settings: Readonly<Record<string, string>>
  readonly log: (line: string) => void
  readonly programs: PostgresPrograms
}

interface Postmaster {
  readonly pid: number
  readonly port: number
}

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { password, port, log = () => {} } = options
  const directory = canonicalPath(options.directory)
  const programs = await findPostgresPrograms(directory)
  if (port === undefined && (await ensureCluster(directory, password, programs)))
    log(`created a PostgreSQL cluster in ${directory}`)

  const start: Start = { directory, password, port, settings: { ...SETTINGS, ...options.settings }, log, programs }
  const until = Date.now() + RETRY_FOR_MS
  for (;;) {
    const adopted = await adopt(start)
    if (adopted) return embedded(start, adopted, true)
    const launched = await launch(start)
    if (typeof launched === 'object') return embedded(start, launched, false)
    if (!PASSING.test(launched) || Date.now() > until) {
      throw DependencyUnavailable(`PostgreSQL in ${directory} failed to start: ${launched}`)
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
    isRunning: () => isRunningPostmaster(directory, pid),
    stop: () => (stopped ??= stopPostmaster(directory, pid, log)),
  }
}

/** Undefined if no server runs in the directory. */
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
    // PostgreSQL removes the file after its own check, but not while any process of its user has that number.
    if (isTaken(pid)) removePidFile(directory)
    log('the former PostgreSQL was killed; the new one recovers its data')
    return undefined
  }

  log(`found a running PostgreSQL (process ${pid})`)
  while (found && isPostmasterOf(directory, pid) && ['', 'starting'].includes(found.status)) {
    await sleep(POLL_MS)
    found = readPidFile(directory)
  }
  if (
    found?.pid === pid &&
    found.status === 'ready' &&
    commandOf(pid) === commandFor(start, start.port ?? found.port)
  ) {
    if (await isResponding(start, found)) return found
    log('the running PostgreSQL does not respond')
  }
  log('stopping the running PostgreSQL')
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

/** The ready server, or the output of a server that ended during its start. */
async function launch(start: Start): Promise<Postmaster | string> {
  const { directory, programs } = start
  const port = start.port ?? (await freePort())
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
    end = `the process ended (${code ?? signal})`
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
  return withoutRejections(logFile.added()) || end
}

/** Opens the first connection: checks the password, and creates the database if it is missing. */
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
    // The login of a tenant (isolation driver database-pg) connects to its own database only.
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
    `PostgreSQL in ${directory} has another password. Restore its password file, or remove the directory.`,
  )

/** A port that is free now. If another process takes it first, `launch` tries again. */
async function freePort(): Promise<number> {
  const server = createServer()
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.once('error', reject).listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo // of a listening TCP server
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
