/**
 * `Idempotency-Key`: stores the first response of a request for a day, so that a repeated request returns it without a second effect.
 *
 * The first request holds a renewed lease of a minute. After a crash the lease expires, and a repeat runs again. `keep` in the request's
 * transaction commits the change and the stored response together. Responses are encrypted.
 */
import { createHash, randomUUID } from 'node:crypto'
import { defineError } from '../base/errors.ts'
import { repeat } from '../base/repeat.ts'
import type { Secrets } from '../crypto/crypto.ts'
import type { Database } from '../database/database.ts'
import { leasedUntil, RENEWALS_PER_LEASE } from '../jobs/lease.ts'

const LEASE_MS = 60_000
const KEPT_HOURS = 24
const DROPPED_AT_ONCE = 100

export const IdempotencyMismatch = defineError('E_IDEMPOTENCY_MISMATCH', 409, 'The key was used for another request')
export const IdempotencyResponseLost = defineError(
  'E_IDEMPOTENCY_RESPONSE_LOST',
  409,
  'The stored response cannot be decrypted',
)
export const IdempotencyInProgress = defineError('E_IDEMPOTENCY_IN_PROGRESS', 409, 'The first request is still running')

export const IDEMPOTENCY_KEYS = `
      create table idempotency_keys (
        scope text primary key,
        request_hash text not null,
        lease uuid not null,
        leased_until timestamptz not null,
        response text,
        expires_at timestamptz not null
      );
      create index idempotency_keys_expiry on idempotency_keys (expires_at);
    `

export interface StoredResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The right to run a request. `keep` or `release` ends it. */
export interface Lease {
  /** Stores the response; commits with the present transaction. Throws if the lease was lost. */
  keep(response: StoredResponse): Promise<void>
  /** Allows a repeat, unless a response is stored: a commit that was reported as failed may have succeeded. */
  release(): Promise<void>
  /** Ends the renewal. */
  end(): Promise<void>
}

export class Idempotency {
  readonly #database: Database
  readonly #secrets: Secrets

  constructor(database: Database, secrets: Secrets) {
    this.#database = database
    this.#secrets = secrets
  }

  /** @param parts token, method, path (normalized) and key @param request must be equal for equal keys */
  async begin(parts: readonly string[], request: string): Promise<Lease | StoredResponse> {
    const scope = sha256(JSON.stringify(parts))
    const hash = sha256(request)
    const lease = randomUUID()
    await this.#dropExpired()
    const { rows } = await this.#database.sql(
      `insert into multitenancy.idempotency_keys as kept (scope, request_hash, lease, leased_until, expires_at)
       values ($1, $2, $3, ${leasedUntil(LEASE_MS)}, now() + interval '${KEPT_HOURS} hours')
       on conflict (scope) do update set request_hash = excluded.request_hash, lease = excluded.lease,
         leased_until = excluded.leased_until, expires_at = excluded.expires_at, response = null
       where kept.expires_at < now()
          or (kept.response is null and kept.leased_until < now() and kept.request_hash = excluded.request_hash)
       returning lease`,
      [scope, hash, lease],
    )
    return rows.length > 0 ? this.#lease(scope, lease) : this.#earlier(scope, hash)
  }

  async #earlier(scope: string, hash: string): Promise<StoredResponse> {
    const { rows } = await this.#database.sql(
      'select request_hash, response from multitenancy.idempotency_keys where scope = $1',
      [scope],
    )
    const [kept] = rows
    if (kept && kept.request_hash !== hash) {
      throw IdempotencyMismatch('This Idempotency-Key was used with another body; use a new one.')
    }
    if (!kept?.response) {
      throw IdempotencyInProgress('A request with this Idempotency-Key is still running; repeat it shortly.', {
        retryAfterSeconds: 1,
      })
    }
    return JSON.parse(this.#decrypted(kept.response, scope))
  }

  /** Never runs the request again: its first run may have had an effect. */
  #decrypted(response: string, scope: string): string {
    try {
      return this.#secrets.decrypt(response, scope)
    } catch (cause) {
      throw IdempotencyResponseLost(
        'A request with this Idempotency-Key was completed, but its response was encrypted with a removed application ' +
          'key. Read the resource, and use a new Idempotency-Key for another request.',
        { cause },
      )
    }
  }

  #lease(scope: string, lease: string): Lease {
    const update = (change: string, ...values: string[]) =>
      this.#database.sql(
        `update multitenancy.idempotency_keys set ${change} where scope = $1 and lease = $2 returning scope`,
        [scope, lease, ...values],
      )
    const renew = async () => void (await update(`leased_until = ${leasedUntil(LEASE_MS)}`))
    // After a failed renewal the lease expires, and `keep` throws.
    const end = repeat(renew, LEASE_MS / RENEWALS_PER_LEASE, () => undefined)
    return {
      keep: async (response) => {
        const { rows } = await update('response = $3', this.#secrets.encrypt(JSON.stringify(response), scope))
        if (rows.length === 0) throw IdempotencyInProgress('Another request took over this Idempotency-Key.')
      },
      release: async () => {
        await this.#database.sql(
          'delete from multitenancy.idempotency_keys where scope = $1 and lease = $2 and response is null',
          [scope, lease],
        )
      },
      end,
    }
  }

  /** Deletes a few expired keys at each use, so no job is needed. */
  async #dropExpired(): Promise<void> {
    await this.#database.sql(
      `delete from multitenancy.idempotency_keys where scope in (
         select scope from multitenancy.idempotency_keys where expires_at < now() - interval '1 hour'
         limit ${DROPPED_AT_ONCE} for update skip locked)`,
    )
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
