/**
 * Data keys of the audit log: one for each tenant, encrypted with the application key. Destroying a key makes the encrypted fields of a
 * tenant's entries unreadable, also in exports and copies, while their seals stay valid.
 *
 * - A key is stored on a separate connection before its first use: a rollback of a change must not lose the key of others.
 * - A process keeps a key for writing for a minute. Reading asks the database each time, so a destroyed key has an immediate effect.
 * - After the destruction, entries of the tenant are encrypted with a key that is not stored.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { withoutDeadline } from '../../../kernel/base/deadline.ts'
import { createSecrets, type Secrets } from '../../../kernel/crypto/crypto.ts'
import type { Database } from '../../../kernel/database/database.ts'
import type { Kernel } from '../../../kernel/kernel.ts'

const KEY_BYTES = 32
const MAX_CACHED = 1_000
const CACHED_MS = 60_000
/** The value of a destroyed key. */
const DESTROYED = ''

/** Context that an encrypted key is bound to. */
export const bindingOf = (tenantId: string): string => `audit_keys:${tenantId}`

export class DataKeys {
  readonly #kernel: Pick<Kernel, 'database' | 'secrets'>
  #own: Database | undefined
  readonly #forWriting = new LRUCache<string, Promise<Secrets>>({ max: MAX_CACHED, ttl: CACHED_MS })

  constructor(kernel: Pick<Kernel, 'database' | 'secrets'>) {
    this.#kernel = kernel
  }

  /** Generates the key of a tenant if there is none. */
  forWriting(tenantId: string): Promise<Secrets> {
    const known = this.#forWriting.get(tenantId)
    if (known) return known
    const made = withoutDeadline(() => this.#made(tenantId)).catch((error) => {
      this.#forWriting.delete(tenantId)
      throw error
    })
    this.#forWriting.set(tenantId, made)
    return made
  }

  /** Keys of these tenants that have one. Null: it was destroyed. */
  async forReading(tenantIds: readonly string[]): Promise<Map<string, Secrets | null>> {
    if (tenantIds.length === 0) return new Map()
    const { rows } = await this.#kernel.database.sql(
      'select tenant_id as "tenantId", key from multitenancy.audit_keys where tenant_id = any($1)',
      [tenantIds],
    )
    return new Map(
      rows.map(({ tenantId, key }) => [tenantId, key === DESTROYED ? null : this.#decrypted(tenantId, key)]),
    )
  }

  async count(tenantId: string): Promise<number> {
    const { rows } = await this.#kernel.database.sql(
      'select count(*) as count from multitenancy.audit_keys where tenant_id = $1 and key <> $2',
      [tenantId, DESTROYED],
    )
    return rows[0].count
  }

  /** Also without a key: later entries of the tenant get none that is stored. */
  async destroy(tenantId: string): Promise<void> {
    this.#forWriting.delete(tenantId)
    await this.#kernel.database.sql(
      'insert into multitenancy.audit_keys (tenant_id, key) values ($1, $2) on conflict (tenant_id) do update set key = excluded.key',
      [tenantId, DESTROYED],
    )
  }

  async #made(tenantId: string): Promise<Secrets> {
    this.#own ??= this.#kernel.database.apart(1)
    const key = randomBytes(KEY_BYTES).toString('base64')
    await this.#own.sql('insert into multitenancy.audit_keys (tenant_id, key) values ($1, $2) on conflict do nothing', [
      tenantId,
      this.#kernel.secrets.encrypt(key, bindingOf(tenantId)),
    ])
    const { rows } = await this.#own.sql('select key from multitenancy.audit_keys where tenant_id = $1', [tenantId])
    const stored: string = rows[0].key
    return stored === DESTROYED ? createSecrets(key) : this.#decrypted(tenantId, stored)
  }

  #decrypted(tenantId: string, key: string): Secrets {
    return createSecrets(this.#kernel.secrets.decrypt(key, bindingOf(tenantId)))
  }
}
