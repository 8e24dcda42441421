/**
 * Sessions of browsers as rows, so that they can be listed and ended in every process. A cookie has the secret, a row its hash.
 *
 *   signed in ──12 h, the end of the token, or without a request for the configured time──► ended
 *       └──sign-out, deletion of the session or of its token──────────────────────────────► row deleted, every process notified
 */
import { NEWEST_FIRST, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { isUuid, uuidv7 } from '../../kernel/base/ids.ts'
import { fingerprint, randomToken } from '../../kernel/crypto/crypto.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { SESSIONS_CHANNEL } from './channels.ts'
import { CredentialCache } from './credential-cache.ts'
import { SessionNotFound } from './errors.ts'
import { LastUses } from './last-uses.ts'
import { type BrowserSession, toSession } from './resource.ts'
import type { AccessTables, SessionRow } from './tables.ts'
import { STALE_FOR_SECONDS } from './tokens.ts'

export const SESSION_SECONDS = 12 * 3_600
/** The time of the last use is up to a minute old. */
const PRECISION_MS = 60_000
const REMOVED_AT_ONCE = 100

const COLUMNS = `id, secret_hash as "secretHash", token_id as "tokenId", fingerprint, name, ip, created_at as "createdAt",
  expires_at as "expiresAt", last_used_at as "lastUsedAt"`

const READ = {
  name: 'tenantry_read_sessions',
  text: `select ${COLUMNS} from multitenancy.api_sessions where secret_hash = any($1::text[])`,
  timeoutMs: 5_000,
}

/** The token of a sign-in. */
export interface SessionOwner {
  readonly name: string
  readonly fingerprint: string
  /** Null for a configured token. */
  readonly tokenId: string | null
  readonly expiresAt: Date | null
}

export interface SessionsOptions {
  /** Time that known sessions are accepted while the database is unavailable; default 300. */
  readonly staleForSeconds?: number | undefined
}

export class Sessions {
  readonly #kernel: Kernel
  readonly #cache: CredentialCache<SessionRow>
  readonly #uses: LastUses

  constructor(kernel: Kernel, { staleForSeconds = STALE_FOR_SECONDS }: SessionsOptions) {
    this.#kernel = kernel
    this.#uses = new LastUses(kernel, 'api_sessions')
    this.#cache = new CredentialCache(kernel, {
      operation: 'sessions.find',
      staleForMs: staleForSeconds * 1_000,
      read: async (hashes) => {
        const { rows } = await kernel.database.sql(READ, [hashes])
        return new Map((rows as SessionRow[]).map((row) => [row.secretHash, row]))
      },
    })
  }

  /** Subscribes to the changes of other processes. */
  async start(): Promise<void> {
    await this.#kernel.database.listen(
      SESSIONS_CHANNEL,
      (hash) => this.#cache.forget(hash),
      () => this.#cache.doubtAll(),
    )
  }

  stop(): Promise<void> {
    return this.#uses.idle()
  }

  /** Starts a session. Returns its row and the secret of its cookie; undefined if its token was deleted meanwhile. */
  async open(owner: SessionOwner): Promise<{ readonly secret: string; readonly session: SessionRow } | undefined> {
    const { database, clock } = this.#kernel
    const now = clock.now()
    const end = new Date(now.getTime() + SESSION_SECONDS * 1_000)
    const secret = randomToken()
    const { name, tokenId, expiresAt } = owner
    const rows = await database.transaction(async () => {
      await database.sql(
        `delete from multitenancy.api_sessions where id in (select id from multitenancy.api_sessions
           where expires_at <= $1 order by expires_at limit ${REMOVED_AT_ONCE} for update skip locked)`,
        [now],
      )
      const inserted = await database.sql(
        `insert into multitenancy.api_sessions (id, secret_hash, token_id, fingerprint, name, ip, created_at, expires_at, last_used_at)
         select $1, $2, $3::uuid, $4, $5, $6, $7, $8, $7
         where $3::uuid is null or exists (select from multitenancy.api_tokens where id = $3 for key share)
         returning ${COLUMNS}`,
        [
          uuidv7(now.getTime()),
          fingerprint(secret),
          tokenId,
          owner.fingerprint,
          name,
          currentContext().ip,
          now,
          expiresAt && expiresAt < end ? expiresAt : end,
        ],
      )
      return inserted.rows as SessionRow[]
    })
    const [session] = rows
    return session && { secret, session }
  }

  /**
   * The session of a cookie's secret. Undefined for an ended one.
   *
   * @param idleMs time without a request after which a session ends
   * @throws E_DEPENDENCY_UNAVAILABLE
   */
  async find(secret: string, idleMs = Number.POSITIVE_INFINITY): Promise<SessionRow | undefined> {
    const row = await this.#cache.find(fingerprint(secret))
    const now = this.#kernel.clock.now().getTime()
    if (!row || row.expiresAt.getTime() <= now) return undefined
    // The row may be older than the last use in this process.
    const lastMs = Math.max(row.lastUsedAt.getTime(), this.#uses.last(row.id))
    return now - lastMs > idleMs + PRECISION_MS ? undefined : row
  }

  /** Notes the use of a session by a valid request. */
  used({ id, lastUsedAt }: SessionRow): void {
    this.#uses.note(id, lastUsedAt)
  }

  /** Ends the session of a cookie's secret. */
  async close(secret: string): Promise<void> {
    const { database } = this.#kernel
    const hash = fingerprint(secret)
    await database.transaction(async () => {
      await database.query<AccessTables>().deleteFrom('apiSessions').where('secretHash', '=', hash).execute()
      await this.#changed(hash)
    })
  }

  /** Sessions that have not expired, the newest first. */
  list(page: PageOptions = {}): Promise<PageOf<BrowserSession>> {
    const { database, cursors, clock } = this.#kernel
    const query = database
      .query<AccessTables>()
      .selectFrom('apiSessions')
      .selectAll()
      .where('expiresAt', '>', clock.now())
    return cursors.keysetPage(query, { name: 'sessions', order: NEWEST_FIRST, item: toSession }, page)
  }

  /** Ends a session: in every process within a second. @throws E_SESSION_NOT_FOUND */
  async delete(id: string): Promise<void> {
    const { database, events } = this.#kernel
    await database.transaction(async () => {
      const row = isUuid(id)
        ? await database
            .query<AccessTables>()
            .deleteFrom('apiSessions')
            .where('id', '=', id)
            .returningAll()
            .executeTakeFirst()
        : undefined
      if (!row) throw SessionNotFound(`Session "${id}" not found.`)
      const before = { name: row.name, tokenId: row.tokenId, createdAt: row.createdAt.toISOString() }
      await recordChange(events, { action: 'sessions.delete', tenantId: null, target: `session:${row.id}`, before })
      await this.#changed(row.secretHash)
    })
  }

  async #changed(hash: string): Promise<void> {
    await this.#kernel.database.notify(SESSIONS_CHANNEL, hash)
    this.#kernel.database.afterCommit(() => this.#cache.forget(hash))
  }
}
