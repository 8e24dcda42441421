/**
 * Marks of databases that may have entries, for tenants with an own database (database-pg): workers look there after a
 * crash, and never at all databases.
 *
 *   a process marks the database, then posts, then commits; it trusts its mark for 20 s
 *   a worker finds a mark unchanged for 30 s of its own clock ──► relays ──► deletes it, if the outbox is empty then
 *
 * - Each mark of a process changes the version, so a worker waits again. Only one worker changes the version that it has
 *   found, and no clock of a server is compared.
 * - A transaction that has posted holds a lock on the outbox until it ends. The worker deletes a mark only while it can
 *   have that table without such a transaction.
 * - A post that takes longer than the rest of the 30 s marks again, while its transaction holds the lock.
 */
import { LRUCache } from 'lru-cache'
import type { Database } from '../../kernel/database/database.ts'
import type { StorageLocation } from '../isolation/driver.ts'

const TRUSTED_MS = 20_000
const UNCHANGED_MS = 30_000
const MAX_TRUSTED = 100_000
const READ_TIMEOUT_MS = 5_000

export interface Mark extends StorageLocation {
  readonly version: number
}

export class Marks {
  readonly #database: Database
  /** Time of the last mark by this process. */
  readonly #trusted = new LRUCache<string, number>({ max: MAX_TRUSTED })
  /** Time at which this process first found the version of a mark. */
  #found = new Map<string, { readonly version: number; readonly since: number }>()

  constructor(database: Database) {
    this.#database = database
  }

  /** Runs `post` with a mark that outlives it. */
  async during<T>(location: StorageLocation, post: () => Promise<T>): Promise<T> {
    const markedAt = await this.mark(location)
    const result = await post()
    if (performance.now() - markedAt > UNCHANGED_MS) await this.renew(location)
    return result
  }

  /** Returns the time of the mark. */
  async mark(location: StorageLocation): Promise<number> {
    const trusted = this.#trusted.get(keyOf(location))
    const isTrusted = trusted !== undefined && performance.now() - trusted < TRUSTED_MS
    return isTrusted ? trusted : this.renew(location)
  }

  /** Marks again. Returns the time before it. */
  async renew(location: StorageLocation): Promise<number> {
    const now = performance.now()
    const { placement, locator, tenantId, isolation, epoch } = location
    await this.#database.outside(() =>
      this.#database.sql(
        `insert into multitenancy.outbox_marks (placement, locator, tenant_id, isolation, epoch)
         values ($1, $2, $3, $4, $5) on conflict (placement, locator) do update set version = excluded.version`,
        [placement, locator, tenantId, isolation, epoch],
      ),
    )
    this.#trusted.set(keyOf(location), now)
    return now
  }

  /** Marks the databases of all tenants with these drivers: a restored backoffice lacks marks. */
  async markAll(isolations: readonly string[]): Promise<void> {
    await this.#database.sql(
      `insert into multitenancy.outbox_marks (placement, locator, tenant_id, isolation, epoch)
       select placement, locator, id, isolation, epoch from multitenancy.tenants
       where isolation = any ($1) and purged_at is null
       on conflict (placement, locator) do update set version = excluded.version`,
      [isolations],
    )
  }

  /** The marks with the longest unchanged versions. */
  async some(limit: number): Promise<Mark[]> {
    const text = `select ${COLUMNS} from multitenancy.outbox_marks order by outbox_marks.version limit $1`
    return (await this.#database.sql({ text, timeoutMs: READ_TIMEOUT_MS }, [limit])).rows
  }

  /** Claims marks that no process has changed for 30 s. */
  async claim(clock = () => performance.now()): Promise<Mark[]> {
    const { rows } = await this.#database.sql(`select ${COLUMNS} from multitenancy.outbox_marks`)
    const now = clock() // A response can be late, and contain a mark that is newer than its request.
    const found = new Map<string, { readonly version: number; readonly since: number }>()
    const claimed: Mark[] = []
    for (const mark of rows as Mark[]) {
      const key = keyOf(mark)
      const before = this.#found.get(key)
      const since = before?.version === mark.version ? before.since : now
      found.set(key, { version: mark.version, since })
      if (now - since >= UNCHANGED_MS) claimed.push(...(await this.#claim(mark)))
    }
    this.#found = found
    return claimed
  }

  /** Deletes a claimed mark. */
  async delete({ placement, locator, version }: Mark): Promise<void> {
    await this.#database.sql(
      'delete from multitenancy.outbox_marks where placement = $1 and locator = $2 and version = $3',
      [placement, locator, version],
    )
  }

  /** Deletes the mark of storage that no statement can reach any more. */
  async forget({ placement, locator }: StorageLocation): Promise<void> {
    await this.#database.sql('delete from multitenancy.outbox_marks where placement = $1 and locator = $2', [
      placement,
      locator,
    ])
  }

  async #claim({ placement, locator, version }: Mark): Promise<Mark[]> {
    const { rows } = await this.#database.sql(
      `update multitenancy.outbox_marks set version = nextval('multitenancy.outbox_mark_versions')
       where placement = $1 and locator = $2 and version = $3 returning ${COLUMNS}`,
      [placement, locator, version],
    )
    return rows
  }
}

const COLUMNS = 'placement, locator, tenant_id as "tenantId", isolation, epoch, version'

const keyOf = ({ placement, locator }: StorageLocation): string => JSON.stringify([placement, locator])
