/**
 * Records each process that uses the backoffice, so that other processes know whether it is alive.
 *
 * - A process is alive while one of its sessions holds its advisory lock. The server releases the lock when the process ends. A stopped
 *   or busy process keeps it. A lost session is replaced.
 * - A lost session of a running process looks like the end of the process. So a takeover must be exact even if the former owner runs.
 * - If a host loses its network or power, the server keeps the lock until it detects the lost connection. The heartbeat stops immediately.
 * - A start compares its settings with those of live processes, under the lock of the backoffice migrations. So of two first starts
 *   with conflicting settings, one fails. A live process holds its lock and has a heartbeat of the last 30 s.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../base/logger.ts'
import type { Database, Session } from '../database/database.ts'
import { type LockWait, underMigrationLock } from '../database/migrations.ts'
import {
  type Difference,
  differencesBetween,
  differenceTexts,
  type ProcessSettings,
  SettingsConflict,
} from './settings.ts'

const HEARTBEAT_MS = 10_000
const RETRY_MS = 1_000
/** Of a statement. An unresponsive session is replaced. */
const TIMEOUT_MS = 10_000
const KEPT_HOURS = 24
const DEAD_SECONDS = 30

export const PROCESSES = `
      create table processes (
        id uuid primary key,
        name text not null,
        role text not null,
        version text not null,
        settings jsonb not null,
        started_at timestamptz(3) not null default now(),
        heartbeat_at timestamptz(3) not null default now()
      );
      alter table idempotency_keys add process_id uuid, add process_lease uuid;
    `

const lockKey = (id: string): string => `hashtextextended('tenantry process ' || ${id}, 0)`

/** Statement that returns the `pid` of the session that holds the lock of a process. @param id SQL */
export const holderOf = (id: string): string => `
  select pid from pg_locks where locktype = 'advisory' and granted and objsubid = 1
    and ((classid::bigint << 32) | objid::bigint) = ${lockKey(`${id}::text`)}
    and database = (select oid from pg_database where datname = current_database())`

/** Condition on the id of a process, both as SQL. */
export const isAlive = (id: string): string => `exists (${holderOf(id)})`

/** Condition on a row: its process holds the lock and has a recent heartbeat. */
const IS_LIVE = `heartbeat_at > now() - interval '${DEAD_SECONDS} seconds' and ${isAlive('id')}`

/** Role of a process that runs one command and serves nothing. */
export const COMMAND = 'command'

/** Migrates the backoffice. @param isDifferent whether a live process has other settings */
export type Prepare = (client: Session, isDifferent: boolean) => Promise<unknown>

/** `but new migrations`: except migrations that the live process does not have yet. */
export type SameSettings = boolean | 'but new migrations'

export interface ProcessDescription {
  readonly role: string
  readonly version: string
  readonly settings: ProcessSettings
  /** Whether any difference to a live process prevents the start; default false: only conflicts. */
  readonly needsSameSettings?: SameSettings | undefined
}

/** A process with a row. */
export interface ListedProcess {
  readonly id: string
  /** Host and process id. */
  readonly name: string
  readonly role: string
  readonly version: string
  readonly settings: ProcessSettings
  readonly startedAt: Date
  readonly heartbeatAt: Date
  readonly isLive: boolean
  readonly isThis: boolean
  /** Of its settings to those of this process. */
  readonly differences: readonly Difference[]
}

export interface ProcessesOptions {
  /** Ends the wait of a start for the migrations of another process. */
  readonly signal?: AbortSignal | undefined
  readonly heartbeatMs?: number
  readonly retryMs?: number
}

export class Processes {
  /** Id of this process. Several tenancies of one program have one each. */
  readonly id: string = randomUUID()
  readonly #own: Database
  readonly #log: Logger
  readonly #database: Database
  readonly #description: ProcessDescription
  readonly #row: readonly string[]
  readonly #options: Required<Omit<ProcessesOptions, 'signal'>>
  readonly #wait: LockWait
  readonly #stopping = new AbortController()
  #ended: Promise<void> | undefined

  /** @param database its connection for the lock is closed with it */
  constructor(
    database: Database,
    log: Logger,
    description: ProcessDescription,
    { heartbeatMs = HEARTBEAT_MS, retryMs = RETRY_MS, signal }: ProcessesOptions = {},
  ) {
    const { role, version, settings } = description
    this.#own = database.apart(1)
    this.#database = database
    this.#log = log
    this.#description = description
    this.#row = [this.id, `${hostname()}:${process.pid}`, role, version, JSON.stringify(settings)]
    this.#options = { heartbeatMs, retryMs }
    this.#wait = { log, signal }
  }

  /**
   * Resolves when this process is recorded and holds its lock.
   *
   * @param migrate migrates the backoffice after the comparison, under its lock
   * @throws `E_SETTINGS_CONFLICT`, or an error of the database
   */
  start(migrate: Prepare): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#ended = this.#run(migrate, resolve).catch(reject)
    })
  }

  /** As `start`, without a record of this process: for a backoffice that cannot store data. */
  check(migrate: Prepare): Promise<void> {
    return this.#own.session((client) => underMigrationLock(client, () => this.#prepare(client, migrate), this.#wait))
  }

  /** All processes with a row, the oldest first. */
  async list(): Promise<ListedProcess[]> {
    const { rows } = await this.#database.sql(
      `select id, name, role, version, settings, started_at as "startedAt", heartbeat_at as "heartbeatAt", ${IS_LIVE} as "isLive"
       from multitenancy.processes order by started_at, id`,
    )
    return rows.map((row) => ({
      ...row,
      isThis: row.id === this.id,
      differences: differencesBetween(this.#description.settings, row.settings),
    }))
  }

  /** Removes the row and releases the lock. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #run(migrate: Prepare, onStarted: () => void): Promise<void> {
    const { signal } = this.#stopping
    let isStarted = false
    let isLost = false
    while (!signal.aborted) {
      try {
        await this.#own.session(async (client) => {
          await query(client, `select pg_advisory_lock_shared(${lockKey('$1::text')})`, [this.id]) // shared, so that it never waits
          if (isStarted) await this.#beat(client)
          else await underMigrationLock(client, () => this.#enter(client, migrate), this.#wait)
          isStarted = true
          isLost = false
          onStarted()
          await this.#keep(client)
        })
      } catch (error) {
        if (!isStarted) throw error
        if (signal.aborted) break
        if (!isLost) this.#log.warn({ err: error }, 'the session that records this process was lost; connecting again')
        isLost = true
        await sleep(this.#options.retryMs, undefined, { signal, ref: false }).catch(() => undefined)
      }
    }
  }

  async #enter(client: Session, migrate: Prepare): Promise<void> {
    await this.#prepare(client, migrate)
    await query(
      client,
      `delete from multitenancy.processes where heartbeat_at < now() - interval '${KEPT_HOURS} hours'`,
    )
    await this.#insert(client)
  }

  async #prepare(client: Session, migrate: Prepare): Promise<void> {
    await migrate(client, await this.#compare(client))
  }

  /**
   * Returns whether a live process has other settings. A later start compares with this process, and a restored session with none:
   * `doctor` reports the rest. A command in an open shell must not prevent the start of a service, so only commands compare with commands.
   */
  async #compare(client: Session): Promise<boolean> {
    const { rows: tables } = await query(client, `select to_regclass('multitenancy.processes') is not null as exists`)
    if (!tables[0].exists) return false
    const isCommand = this.#description.role === COMMAND
    const { rows } = await query(
      client,
      `select name, role, version, settings from multitenancy.processes where ${IS_LIVE} and ($1 or role <> '${COMMAND}')`,
      [String(isCommand)],
    )
    let isDifferent = false
    const { settings, needsSameSettings = false } = this.#description
    for (const other of rows as Omit<ProcessDescription & { name: string }, 'needsSameSettings'>[]) {
      const differences = differencesBetween(settings, other.settings)
      if (differences.length === 0) continue
      isDifferent = true
      const conflicts = differences.filter((one) => one.isConflict || isPreventing(one, needsSameSettings))
      const who = `${other.role} process ${other.name} of version ${other.version}`
      if (conflicts.length > 0) throw SettingsConflict(conflictText(who, conflicts, isCommand))
      const { name: process, role, version } = other
      this.#log.warn(
        { process, role, version, differences: differenceTexts(differences) },
        'a running process has other settings; this is valid only during a deployment',
      )
    }
    return isDifferent
  }

  /** Until the process stops. Throws if the session is lost. */
  async #keep(client: Session): Promise<void> {
    const lost = new AbortController()
    client.once('error', (error) => lost.abort(error))
    client.once('end', () => lost.abort(new Error('the connection was closed')))
    const signal = AbortSignal.any([this.#stopping.signal, lost.signal])
    for (;;) {
      await sleep(this.#options.heartbeatMs, undefined, { signal, ref: false }).catch(() => undefined)
      lost.signal.throwIfAborted()
      if (signal.aborted) break
      await this.#beat(client)
    }
    await query(client, 'delete from multitenancy.processes where id = $1', [this.id])
    await query(client, `select pg_advisory_unlock_shared(${lockKey('$1::text')})`, [this.id])
  }

  async #beat(client: Session): Promise<void> {
    const { rowCount } = await query(client, 'update multitenancy.processes set heartbeat_at = now() where id = $1', [
      this.id,
    ])
    if (rowCount === 0) await this.#insert(client)
  }

  async #insert(client: Session): Promise<void> {
    await query(
      client,
      'insert into multitenancy.processes (id, name, role, version, settings) values ($1, $2, $3, $4, $5)',
      this.#row,
    )
  }
}

function isPreventing({ setting, there }: Difference, needed: SameSettings): boolean {
  const isNewMigration = setting.startsWith('migrations.') && there === null
  return needed === true || (needed === 'but new migrations' && !isNewMigration)
}

const conflictText = (who: string, conflicts: readonly Difference[], isCommand: boolean): string =>
  [
    `The settings of this process and those of the running ${who} differ:`,
    ...differenceTexts(conflicts).map((text) => `  ${text}`),
    remedyOf(conflicts, isCommand),
  ].join('\n')

function remedyOf(conflicts: readonly Difference[], isCommand: boolean): string {
  if (!isCommand) return 'Use the same settings, or stop that process.'
  return conflicts.some(({ isConflict }) => isConflict)
    ? 'Name the definition of that process with --app and use its environment, or stop that process.'
    : 'Name the definition of that process with --app, or run the command again with --allow-different-settings.'
}

function query(client: Session, text: string, values: readonly string[] = []) {
  // The types of `pg` lack the timeout of a query.
  const limited = { text, values: [...values], query_timeout: TIMEOUT_MS }
  return client.query(limited)
}
