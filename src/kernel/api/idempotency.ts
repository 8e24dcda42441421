/**
 * `Idempotency-Key`: stores the first response of a request for a day, so that a repeated request returns it without a second effect.
 *
 * The first request holds a lease until its deadline. A repeat takes it over after the deadline, or after the end of the process. `keep`
 * in the request's transaction commits the change and the stored response together, and requires the lease: of two requests that run
 * concurrently after a takeover, one commits. Responses are encrypted. A process of 0.2.0-alpha.1 that takes over changes only the
 * lease: `process_id` is its owner only if `process_lease` is equal to it.
 */
import { createHash, randomUUID } from 'node:crypto'
import { defineError } from '../base/errors.ts'
import type { Secrets } from '../crypto/crypto.ts'
import type { Database } from '../database/database.ts'
import { leasedUntil } from '../jobs/lease.ts'
import { isAlive, type Processes } from '../processes/processes.ts'

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
}

export interface IdempotencyDependencies {
  readonly database: Database
  readonly secrets: Secrets
  readonly processes: Pick<Processes, 'id'>
}

export class Idempotency {
  readonly #database: Database
  readonly #secrets: Secrets
  readonly #processId: string

  constructor({ database, secrets, processes }: IdempotencyDependencies) {
    this.#database = database
    this.#secrets = secrets
    this.#processId = processes.id
  }

  /**
   * @param parts token, method, path (normalized) and key
   * @param request must be equal for equal keys
   * @param leaseMs time until the deadline of the request
   */
  async begin(parts: readonly string[], request: string, leaseMs: number): Promise<Lease | StoredResponse> {
    const scope = sha256(JSON.stringify(parts))
    const hash = sha256(request)
    const lease = randomUUID()
    await this.#dropExpired()
    const { rows } = await this.#database.sql(
      `insert into multitenancy.idempotency_keys as kept
         (scope, request_hash, lease, leased_until, expires_at, process_id, process_lease)
       values ($1, $2, $3, ${leasedUntil('$4')}, now() + interval '${KEPT_HOURS} hours', $5, $3)
       on conflict (scope) do update set request_hash = excluded.request_hash, lease = excluded.lease,
         leased_until = excluded.leased_until, expires_at = excluded.expires_at, process_id = excluded.process_id,
         process_lease = excluded.process_lease, response = null
       where kept.expires_at < now()
          or (kept.response is null and kept.request_hash = excluded.request_hash and (kept.leased_until < now()
            or (kept.process_lease = kept.lease and not ${isAlive('kept.process_id')})))
       returning lease`,
      [scope, hash, lease, leaseMs, this.#processId],
    )
    return rows.length > 0 ? this.#lease(scope, lease) : this.#earlier(scope, hash)
  }

  async #earlier(scope: string, hash: string): Promise<StoredResponse> {
    const { rows } = await this.#database.sql(
      `select request_hash, response, extract(epoch from leased_until - now())::double precision as remaining
       from multitenancy.idempotency_keys where scope = $1`,
      [scope],
    )
    const [kept] = rows
    if (kept && kept.request_hash !== hash) {
      throw IdempotencyMismatch('This Idempotency-Key was used with another body; use a new one.')
    }
    if (!kept?.response) {
      throw IdempotencyInProgress(
        'A request with this Idempotency-Key is still running. Repeat this request after the deadline of the first one.',
        {
          retryAfterSeconds: Math.max(1, kept?.remaining ?? 0),
        },
      )
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
