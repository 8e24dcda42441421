/**
 * Stores sessions. The database's clock decides on expiry, so all processes agree; a test's clock is sent as its offset.
 *
 *   active ──expires_at──► expired
 *     └────── end() ─────► ended      ended_at is set once, and never on an expired session
 *
 * - Nothing is cached: each request runs one indexed statement, so an end applies to all later requests.
 * - A request holds a shared advisory lock of its session. An end waits for an exclusive one, and later requests queue behind it.
 * - The server ends unresponsive transactions. After its time limit, an end proceeds, because the row itself is not locked.
 */
import { sql } from 'kysely'
import { keysetQuery, NEWEST_FIRST, type PageOf } from '../../kernel/api/page.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { sqlState } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type Impersonation, toImpersonation } from './resource.ts'
import type { ImpersonationRow, ImpersonationTables } from './tables.ts'

/** Limit of a statement. An unresponsive database would occupy the connection for minutes. */
const TIMEOUT_MS = 5_000

/** Limit for waits, work and idle time of a transaction that holds a session, and for the wait of an end. */
const HOLD_LIMIT_MS = 5_000
const LOCK_NOT_AVAILABLE = '55P03'
const QUERY_CANCELED = '57014'
/** SQL expression of a session's advisory lock, by the hash of its token. */
export const lockOf = (tokenHash: string) => `hashtextextended('tenantry impersonation ' || ${tokenHash}, 0)`
const LIMIT = `select set_config(name, $1, true)
  from unnest(array['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout']) name`

const COLUMNS = `id, tenant_id as "tenantId", user_id as "userId", actor_type as "actorType", actor_id as "actorId",
  actor_name as "actorName", reason, token_hash as "tokenHash", created_at as "createdAt", expires_at as "expiresAt",
  ended_at as "endedAt"`
const now = (shift: string) => `clock_timestamp() + ${shift}::float8 * interval '1 millisecond'`
const FIND = `select ${COLUMNS} from multitenancy.impersonations
  where token_hash = $1 and tenant_id = $2 and ended_at is null and expires_at > ${now('$3')}`

export interface ListOptions {
  /** True: active sessions. False: expired and ended ones. */
  readonly active?: boolean | undefined
  readonly limit: number
  readonly cursor?: string | undefined
}

export type StartKey = Pick<ImpersonationRow, 'createdAt' | 'id'>

export type NewSession = Pick<
  ImpersonationRow,
  'tenantId' | 'userId' | 'actorType' | 'actorId' | 'actorName' | 'reason' | 'tokenHash'
>

export class Sessions {
  readonly #kernel: Pick<Kernel, 'database' | 'clock' | 'cursors' | 'log'>

  constructor(kernel: Pick<Kernel, 'database' | 'clock' | 'cursors' | 'log'>) {
    this.#kernel = kernel
  }

  async insert(session: NewSession, durationSeconds: number): Promise<ImpersonationRow> {
    const { tenantId, userId, actorType, actorId, actorName, reason, tokenHash } = session
    const id = uuidv7(this.#kernel.clock.now().getTime())
    const { rows } = await this.#kernel.database.sql(
      `insert into multitenancy.impersonations
         (id, tenant_id, user_id, actor_type, actor_id, actor_name, reason, token_hash, created_at, expires_at)
       select $1, $2, $3, $4, $5, $6, $7, $8, began, began + $9::float8 * interval '1 second' from (select ${now('$10')} as began) t
       returning ${COLUMNS}`,
      [id, tenantId, userId, actorType, actorId, actorName, reason, tokenHash, durationSeconds, this.#shiftMs],
    )
    return rows[0]
  }

  /** The active session of a token. */
  async find(tenantId: string, tokenHash: string): Promise<ImpersonationRow | undefined> {
    const statement = { name: 'tenantry_find_impersonation', text: FIND, timeoutMs: TIMEOUT_MS }
    const { rows } = await this.#kernel.database.sql(statement, [tokenHash, tenantId, this.#shiftMs])
    return rows[0]
  }

  /** Makes the server end the present transaction if it waits, works or is idle for too long. */
  async limit(): Promise<void> {
    await this.#kernel.database.sql(LIMIT, [String(HOLD_LIMIT_MS)])
  }

  /** As `find`, and makes an end wait until the present transaction ends. Requires `limit`. */
  async hold(tenantId: string, tokenHash: string): Promise<ImpersonationRow | undefined> {
    const { database } = this.#kernel
    await database.sql(`select pg_advisory_xact_lock_shared(${lockOf('$1')})`, [tokenHash])
    const { rows } = await database.sql(FIND, [tokenHash, tenantId, this.#shiftMs])
    return rows[0]
  }

  async get(sessionId: string): Promise<ImpersonationRow | undefined> {
    return this.#rows().where('id', '=', sessionId).executeTakeFirst()
  }

  /** Ends the active sessions of an id or of a tenant, and returns them. */
  async end(of: { readonly sessionId: string } | { readonly tenantId: string }): Promise<ImpersonationRow[]> {
    const { database } = this.#kernel
    const [column, value] = 'sessionId' in of ? ['id', of.sessionId] : ['tenant_id', of.tenantId]
    const areOn = `${column} = $1 and ended_at is null and expires_at > ${now('$2')}`
    const { rows: on } = await database.sql(
      `select token_hash as "tokenHash" from multitenancy.impersonations where ${areOn} order by id`,
      [value, this.#shiftMs],
    )
    if (on.length === 0) return []
    await this.#waitForRequests(on.map(({ tokenHash }) => tokenHash))
    const { rows } = await database.sql(
      `update multitenancy.impersonations set ended_at = ${now('$2')} where ${areOn} returning ${COLUMNS}`,
      [value, this.#shiftMs],
    )
    return rows
  }

  /** The newest first. Without a tenant: of all tenants. */
  list(tenantId: string | undefined, { active, ...page }: ListOptions): Promise<PageOf<Impersonation>> {
    let query = this.#rows()
    if (tenantId !== undefined) query = query.where('tenantId', '=', tenantId)
    if (active !== undefined) {
      const isOn = sql<boolean>`ended_at is null and expires_at > ${sql.raw(now(String(this.#shiftMs)))}`
      query = query.where(active ? isOn : sql<boolean>`not (${isOn})`)
    }
    const keyset = { name: 'impersonations', filters: [tenantId, active], order: NEWEST_FIRST, item: toImpersonation }
    return this.#kernel.cursors.keysetPage(query, keyset, page)
  }

  /** For the timeline of a tenant: the newest first, after a sort key. @param from inclusive */
  startedBefore(tenantId: string, after: StartKey, from: Date | undefined, limit: number): Promise<ImpersonationRow[]> {
    const ofTenant = this.#rows().where('tenantId', '=', tenantId)
    const query = from ? ofTenant.where('createdAt', '>=', from) : ofTenant
    return keysetQuery(query, NEWEST_FIRST, after, limit).execute()
  }

  /** Waits for holders of these sessions, for a limited time. Restores the limit of the present transaction, which may be the caller's. */
  async #waitForRequests(tokenHashes: readonly string[]): Promise<void> {
    const { database, log } = this.#kernel
    const { rows } = await database.sql(`select current_setting('statement_timeout') as before`)
    const limit = (value: string) => database.sql(`select set_config('statement_timeout', $1, true)`, [value])
    try {
      await database.transaction(async () => {
        await limit(String(HOLD_LIMIT_MS))
        await database.sql(`select pg_advisory_xact_lock(${lockOf('hash')}) from unnest($1::text[]) hash`, [
          tokenHashes,
        ])
        await limit(rows[0].before)
      })
    } catch (error) {
      if (![LOCK_NOT_AVAILABLE, QUERY_CANCELED].includes(sqlState(error) ?? '')) throw error
      log.warn({ err: error }, 'an impersonation was ended while one of its requests was still in flight')
    }
  }

  #rows() {
    return this.#kernel.database.query<ImpersonationTables>().selectFrom('impersonations').selectAll()
  }

  get #shiftMs(): number {
    return this.#kernel.clock.now().getTime() - Date.now()
  }
}
