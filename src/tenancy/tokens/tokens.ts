/**
 * API tokens: `tnt_<id>_<secret>`, returned once and stored as SHA-256.
 *
 * 1. A token creates only tokens within its own operations, tenants and end. This holds for each call in a request, also by the code of a
 *    satellite: the permissions of the request are in its context.
 * 2. A created token keeps the patterns of its creators. So it never gains an operation of a later version that its creator lacks.
 * 3. A deletion ends the sessions of the token. It commits with a notification, which drops the token from caches (credential-cache.ts).
 * 4. Secrets are compared by digest in constant time.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import type { AnyOperation } from '../../kernel/api/operation.ts'
import { NEWEST_FIRST, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { isUnlimited, permittedOperations, unknownPatterns } from '../../kernel/api/permissions.ts'
import { currentContext, type Grant } from '../../kernel/base/context.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { isUuid, uuidv7 } from '../../kernel/base/ids.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { fingerprint, randomToken } from '../../kernel/crypto/crypto.ts'
import { violatedConstraint } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { AttemptLimit } from '../../kernel/store/attempt-limit.ts'
import { TOKENS_CHANNEL } from './channels.ts'
import { CredentialCache } from './credential-cache.ts'
import { Forbidden, PatternUnknown, TokenExists, TokenNotFound } from './errors.ts'
import { LastUses } from './last-uses.ts'
import { NewToken, type Token, type TokenWithSecret, toToken } from './resource.ts'
import type { AccessTables, TokenRow } from './tables.ts'
import { parseToken, tokenText } from './token-text.ts'

export const STALE_FOR_SECONDS = 300
/** Longest chain of tokens that create tokens with other patterns. */
const MAX_BOUNDS = 10
/** Audit entries of denied calls of one token in a minute. */
const MAX_DENIALS = 10
const MINUTE_SECONDS = 60

const READ = {
  name: 'tenantry_read_tokens',
  text: `select id, name, secret_hash as "secretHash", bounds, tenants, creator_type as "creatorType", creator_id as "creatorId",
      creator_name as "creatorName", created_at as "createdAt", expires_at as "expiresAt", last_used_at as "lastUsedAt"
    from multitenancy.api_tokens where id = any($1::uuid[])`,
  timeoutMs: 5_000,
}

/** A valid token of the table. */
export interface KnownToken {
  readonly id: string
  readonly name: string
  readonly grant: Grant
}

interface Cached extends KnownToken {
  readonly secretHash: Buffer
  readonly lastUsedAt: Date | null
}

export interface TokensOptions {
  /** All operations of the API. */
  readonly operations: readonly AnyOperation[]
  /** Time that known tokens are accepted while the database is unavailable; default 300. */
  readonly staleForSeconds?: number | undefined
}

export class Tokens {
  /** All operations of the API. */
  readonly operations: readonly AnyOperation[]
  readonly #kernel: Kernel
  readonly #cache: CredentialCache<Cached>
  readonly #uses: LastUses
  readonly #denials: AttemptLimit

  constructor(kernel: Kernel, { operations, staleForSeconds = STALE_FOR_SECONDS }: TokensOptions) {
    this.operations = operations
    this.#kernel = kernel
    this.#uses = new LastUses(kernel, 'api_tokens')
    this.#denials = new AttemptLimit(kernel, {
      operation: 'tokens.deny',
      max: MAX_DENIALS,
      windowSeconds: MINUTE_SECONDS,
    })
    this.#cache = new CredentialCache(kernel, {
      operation: 'tokens.find',
      staleForMs: staleForSeconds * 1_000,
      read: async (ids) => {
        const { rows } = await kernel.database.sql(READ, [ids])
        return new Map((rows as TokenRow[]).map((row) => [row.id, this.#toCached(row)]))
      },
    })
  }

  /** Subscribes to the changes of other processes. */
  async start(): Promise<void> {
    await this.#kernel.database.listen(
      TOKENS_CHANNEL,
      (id) => this.#cache.forget(id),
      () => this.#cache.doubtAll(),
    )
  }

  stop(): Promise<void> {
    return this.#uses.idle()
  }

  /**
   * Creates a token. `token` of the result is its text, which is not stored.
   *
   * @throws E_TOKEN_EXISTS, E_PATTERN_UNKNOWN, E_INVALID_REQUEST; E_FORBIDDEN beyond the permissions of the request's token
   * @example const { token } = await tenancy.tokens.create({ name: 'ci', may: ['tenants.*', '!tenants.delete'] })
   */
  async create(request: NewToken): Promise<TokenWithSecret> {
    const { name, may, tenants, expiresAt } = parsed(NewToken, request)
    const unknown = unknownPatterns(may, this.operations)
    if (unknown.length > 0) {
      const names = unknown.map((pattern) => `"${pattern}"`).join(', ')
      throw PatternUnknown(`may: ${names} matches no operation. GET /session lists the operations.`, {
        extras: { patterns: unknown },
      })
    }
    const { database, clock, events } = this.#kernel
    const now = clock.now()
    const given = expiresAt === undefined ? null : new Date(expiresAt)
    if (given && given <= now) throw invalid([{ path: 'expiresAt', message: 'must be in the future' }])
    const { grant, actor } = currentContext()
    const bounds = grant ? boundsWithin(grant, may) : ([may] as const)
    const end = given ?? grant?.expiresAt ?? null
    if (grant) this.#assertWithin(grant, { may, tenants, expiresAt: end })
    const secret = randomToken()
    const row: TokenRow = {
      id: uuidv7(now.getTime()),
      name,
      secretHash: fingerprint(secret),
      bounds,
      tenants: tenants ?? null,
      creatorType: actor.type,
      creatorId: actor.id,
      creatorName: actor.name,
      createdAt: now,
      expiresAt: end,
      lastUsedAt: null,
    }
    await database.transaction(async () => {
      if (grant?.tokenId !== undefined) await this.#assertNotRevoked(grant.tokenId)
      await this.#insert(row)
      await recordChange(events, { ...changeOf('create', row.id), after: imageOf(row) })
      await this.#changed(row.id)
    })
    return { ...toToken(row), token: tokenText(row.id, secret) }
  }

  /** The newest first, with expired ones. */
  list(page: PageOptions = {}): Promise<PageOf<Token>> {
    const { database, cursors } = this.#kernel
    const query = database.query<AccessTables>().selectFrom('apiTokens').selectAll()
    return cursors.keysetPage(query, { name: 'tokens', order: NEWEST_FIRST, item: toToken }, page)
  }

  /** Revokes a token and ends its sessions: in every process within a second. @throws E_TOKEN_NOT_FOUND */
  async delete(id: string): Promise<void> {
    const { database, events } = this.#kernel
    await database.transaction(async () => {
      const deleted = database.query<AccessTables>().deleteFrom('apiTokens').where('id', '=', id).returningAll()
      const row = isUuid(id) ? await deleted.executeTakeFirst() : undefined
      if (!row) throw TokenNotFound(`Token "${id}" not found.`)
      await recordChange(events, { ...changeOf('delete', row.id), before: imageOf(row) })
      await this.#changed(row.id) // caches have the stored spelling
    })
  }

  /** The token of a text. Undefined for a wrong, expired or revoked one. @throws E_DEPENDENCY_UNAVAILABLE */
  async authenticate(text: string): Promise<KnownToken | undefined> {
    const { id, secret } = parseToken(text) ?? {}
    if (id === undefined || secret === undefined) return undefined
    const known = await this.#valid(id)
    if (!known || !timingSafeEqual(hash('sha256', secret, 'buffer'), known.secretHash)) return undefined
    this.#uses.note(id, known.lastUsedAt)
    return known
  }

  /** The token behind a session. Undefined for an expired or revoked one. @throws E_DEPENDENCY_UNAVAILABLE */
  async find(id: string): Promise<KnownToken | undefined> {
    const known = await this.#valid(id)
    if (known) this.#uses.note(id, known.lastUsedAt)
    return known
  }

  /** The grant of patterns that are not stored: of the configuration or of a host. @throws E_PATTERN_UNKNOWN */
  grantOf(may: readonly string[], tenants: readonly string[] | null = null): Grant {
    const [unknown] = unknownPatterns(may, this.operations)
    if (unknown !== undefined) throw PatternUnknown(`The pattern "${unknown}" matches no operation.`)
    return { bounds: [may], operations: permittedOperations([may], this.operations), tenants, expiresAt: null }
  }

  /**
   * Records a denied call of the request's token, outside of its transaction: at most ten in a minute, so that they cannot fill the audit
   * log. The key has the minute, because a sliding limit would not end while calls continue.
   */
  async recordDenial(operation: string, tenantId: string | undefined): Promise<void> {
    const { actor } = currentContext()
    const minute = Math.floor(this.#kernel.clock.now().getTime() / (MINUTE_SECONDS * 1_000))
    try {
      if ((await this.#denials.count(`denied:${fingerprint(actor.id)}:${minute}`)) > 0) return
      await recordChange(this.#kernel.events, {
        action: 'tokens.deny',
        tenantId: null,
        target: `operation:${operation}`,
        after: tenantId === undefined ? { operation } : { operation, tenantId },
        outcome: 'failure',
        isChange: false,
      })
    } catch (error) {
      this.#kernel.log.warn({ err: error }, 'a denied call was not recorded')
    }
  }

  async #valid(id: string): Promise<Cached | undefined> {
    const known = await this.#cache.find(id)
    const end = known?.grant.expiresAt
    return end && end <= this.#kernel.clock.now() ? undefined : known
  }

  #toCached({ id, name, secretHash, bounds, tenants, expiresAt, lastUsedAt }: TokenRow): Cached {
    const operations = permittedOperations(bounds, this.operations)
    return {
      id,
      name,
      secretHash: Buffer.from(secretHash, 'hex'),
      lastUsedAt,
      grant: { bounds, operations, tenants, expiresAt, tokenId: id },
    }
  }

  #assertWithin(
    grant: Grant,
    { may, tenants, expiresAt }: Pick<Grant, 'expiresAt'> & Pick<NewToken, 'may' | 'tenants'>,
  ): void {
    const wider = [...permittedOperations([may], this.operations)].filter((name) => !grant.operations.has(name))
    if (wider.length > 0) {
      const rest = wider.length > 3 ? ` and ${wider.length - 3} more` : ''
      throw beyond(`may: the present token does not permit ${wider.slice(0, 3).join(', ')}${rest}`)
    }
    const limit = grant.tenants
    if (limit && !(tenants?.every((id) => limit.includes(id)) ?? false)) {
      throw beyond(`tenants: the present token is limited to ${limit.join(', ')}`)
    }
    if (grant.expiresAt && (!expiresAt || expiresAt > grant.expiresAt)) {
      throw beyond(`expiresAt: the present token ends at ${grant.expiresAt.toISOString()}`)
    }
  }

  /** A process that has missed the notification must not create a lasting token. The revocation waits for the present transaction. */
  async #assertNotRevoked(id: string): Promise<void> {
    const { database } = this.#kernel
    const { rows } = await database.sql('select from multitenancy.api_tokens where id = $1 for key share', [id])
    if (rows.length === 0) throw Forbidden('The token of this request was revoked.')
  }

  async #insert(row: TokenRow): Promise<void> {
    const query = this.#kernel.database.query<AccessTables>()
    const values = { ...row, bounds: JSON.stringify(row.bounds) as unknown as TokenRow['bounds'] }
    await query
      .insertInto('apiTokens')
      .values(values)
      .execute()
      .catch((error) => {
        if (violatedConstraint(error) !== 'api_tokens_name') throw error
        throw TokenExists(
          `A token with the name "${row.name}" exists. Choose another name, or delete that token first.`,
        )
      })
  }

  async #changed(id: string): Promise<void> {
    await this.#kernel.database.notify(TOKENS_CHANNEL, id)
    this.#kernel.database.afterCommit(() => this.#cache.forget(id))
  }
}

/** Lists that permit everything, and repeated ones, are left out. */
function boundsWithin({ bounds }: Grant, may: readonly string[]): TokenRow['bounds'] {
  const kept = new Map(bounds.filter((one) => !isUnlimited(one)).map((one) => [JSON.stringify(one), one]))
  kept.delete(JSON.stringify(may))
  if (kept.size >= MAX_BOUNDS) throw beyond('the present token was created by too many others, one after the other')
  return [may, ...kept.values()]
}

const beyond = (reason: string) => Forbidden(`A token creates only tokens within its own permissions. ${reason}.`)

const changeOf = (verb: 'create' | 'delete', id: string) => ({
  action: `tokens.${verb}`,
  tenantId: null,
  target: `token:${id}`,
})

const imageOf = ({ name, bounds, tenants, expiresAt }: TokenRow) => ({
  name,
  may: bounds[0],
  tenants,
  expiresAt: expiresAt?.toISOString() ?? null,
})
