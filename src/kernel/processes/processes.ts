/**
 * Records each process that uses the backoffice, so that other processes know whether it is alive.
 *
 * - A process is alive while one of its sessions holds its advisory lock. The server releases the lock when the process ends. A stopped
 *   or busy process keeps it. A lost session is replaced.
 * - A lost session of a running process looks like the end of the process. So a takeover must be exact even if the former owner runs.
 * - If a host loses its network or power, the server keeps the lock until it detects the lost connection. The heartbeat stops immediately.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../base/logger.ts'
import type { Database, Session } from '../database/database.ts'

const HEARTBEAT_MS = 10_000
const RETRY_MS = 1_000
/** Of a statement. An unresponsive session is replaced. */
const TIMEOUT_MS = 10_000
const KEPT_HOURS = 24

export const PROCESSES = `
      create table processes (
        id uuid primary key,
        name text not null,
        role text not null,
        version text not null,
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

export interface ProcessDescription {
  readonly role: string
  readonly version: string
}

export interface ProcessesOptions {
  readonly heartbeatMs?: number
  readonly retryMs?: number
}

export class Processes {
  /** Id of this process. Several tenancies of one program have one each. */
  readonly id: string = randomUUID()
  readonly #own: Database
  readonly #log: Logger
  readonly #row: readonly string[]
  readonly #options: Required<ProcessesOptions>
  readonly #stopping = new AbortController()
  #ended: Promise<void> | undefined

  /** @param database its connection for the lock is closed with it */
  constructor(
    database: Database,
    log: Logger,
    { role, version }: ProcessDescription,
    { heartbeatMs = HEARTBEAT_MS, retryMs = RETRY_MS }: ProcessesOptions = {},
  ) {
    this.#own = database.apart(1)
    this.#log = log
    this.#row = [this.id, `${hostname()}:${process.pid}`, role, version]
    this.#options = { heartbeatMs, retryMs }
  }

  /** Resolves when this process is recorded and holds its lock. Throws if the database is unavailable. */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#ended = this.#run(resolve).catch(reject)
    })
  }

  /** Removes the row and releases the lock. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #run(onStarted: () => void): Promise<void> {
    const { signal } = this.#stopping
    let isStarted = false
    let isLost = false
    while (!signal.aborted) {
      try {
        await this.#own.session(async (client) => {
          await this.#begin(client)
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

  async #begin(client: Session): Promise<void> {
    await query(client, `select pg_advisory_lock_shared(${lockKey('$1::text')})`, [this.id]) // shared, so that it never waits
    await query(
      client,
      `delete from multitenancy.processes where heartbeat_at < now() - interval '${KEPT_HOURS} hours'`,
    )
    await this.#beat(client)
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
  }

  async #beat(client: Session): Promise<void> {
    await query(
      client,
      `insert into multitenancy.processes (id, name, role, version) values ($1, $2, $3, $4)
       on conflict (id) do update set heartbeat_at = now()`,
      this.#row,
    )
  }
}

async function query(client: Session, text: string, values: readonly string[] = []): Promise<void> {
  // The types of `pg` lack the timeout of a query.
  const limited = { text, values: [...values], query_timeout: TIMEOUT_MS }
  await client.query(limited)
}
