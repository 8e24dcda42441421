/**
 * Applies entries in the backoffice, each id of a tenant once.
 *
 * - The ids and the effects commit together. An id that is known is an entry whose deletion was rolled back.
 * - Ids are kept for 36 days. An older entry, on a restored server, may have been applied: it is stored as failed,
 *   and only a retry with its id applies it.
 * - If a batch of one kind fails permanently, its entries are applied one by one, and those that fail are stored with
 *   their error. After any other error, such as an outage, the entries of this kind stay for the next attempt, and those
 *   of other kinds are applied.
 * - A failed entry that cannot be stored is stored without its arguments: no entry can block those behind it.
 */
import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import { toPostgresText } from '../../kernel/database/postgres-text.ts'
import { writeFailure } from '../../kernel/database/write-failures.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { OutboxEntry } from '../../kernel/outbox/kinds.ts'
import type { PostedEntry, Postponed } from '../isolation/outbox.ts'
import { contextOf, withoutMac } from './posting.ts'

const APPLICABLE_DAYS = 35
const KEPT_DAYS = 36
/** Serialization failure, deadlock, lock not available. */
const PASSING = new Set(['40001', '40P01', '55P03', '57014'])

/** An entry with its payload as it was posted. */
interface Waiting extends Omit<OutboxEntry, 'payload'> {
  readonly kind: string
  readonly payload: string
  readonly isOld?: boolean
  readonly posted?: PostedEntry
}

/** Entries of one kind that cannot be applied at present. */
interface Outage {
  readonly waiting: readonly Waiting[]
  readonly error: unknown
}

export class Application {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Returns entries that cannot be applied at present. Throws if that is true of all, as for an unavailable backoffice. */
  async apply(entries: readonly PostedEntry[]): Promise<Postponed | undefined> {
    const { database, secrets } = this.#kernel
    return database.transaction(async () => {
      const { rows } = await database.sql(
        `insert into multitenancy.outbox_received (id, tenant_id, posted_at)
         select * from unnest($1::uuid[], $2::text[], $3::timestamptz[]) on conflict do nothing
         returning id, tenant_id, posted_at < now() - interval '${APPLICABLE_DAYS} days' as "isOld"`,
        [entries.map(({ id }) => id), entries.map(({ tenantId }) => tenantId), entries.map(({ postedAt }) => postedAt)],
      )
      const received = new Map(rows.map(({ id, tenant_id, isOld }) => [`${id} ${tenant_id}`, isOld as boolean]))
      const byKind = new Map<string, Waiting[]>()
      for (const posted of entries) {
        const { id, tenantId, kind, payload, postedAt, ...entry } = posted
        const key = `${id} ${tenantId}`
        const isOld = received.get(key)
        if (isOld === undefined) continue
        received.delete(key) // A batch may contain an id twice.
        const context = contextOf(secrets, { id, tenantId, kind, payload, postedAt, ...entry })
        const waiting = { id, tenantId, kind, payload, postedAt, context, posted }
        if (isOld) await this.#keepFailed({ ...waiting, isOld }, `The entry is older than ${APPLICABLE_DAYS} days.`)
        else byKind.set(kind, [...(byKind.get(kind) ?? []), waiting])
      }
      const outages: Outage[] = []
      for (const [kind, waiting] of byKind) outages.push(...(await this.#applyAll(kind, waiting)))
      return this.#postponed(outages)
    })
  }

  async #postponed(outages: readonly Outage[]): Promise<Postponed | undefined> {
    const [first] = outages
    if (!first) return undefined
    const waiting = outages.flatMap((outage) => outage.waiting)
    await this.#kernel.database.sql(
      `delete from multitenancy.outbox_received using unnest($1::uuid[], $2::text[]) as kept (id, tenant_id)
       where outbox_received.id = kept.id and outbox_received.tenant_id = kept.tenant_id`,
      [waiting.map(({ id }) => id), waiting.map(({ tenantId }) => tenantId)],
    )
    return { entries: new Set(waiting.flatMap(({ posted }) => posted ?? [])), error: first.error }
  }

  /** Applies a failed entry again. Throws its error, and keeps the entry then. Returns false without such an entry. */
  async retry(id: string, tenantId: string): Promise<boolean> {
    const { database, outbox } = this.#kernel
    return database.transaction(async () => {
      const { rows } = await database.sql(
        `delete from multitenancy.outbox_failed where id = $1 and tenant_id = $2
         returning id, tenant_id as "tenantId", kind, payload, context, posted_at as "postedAt"`,
        [id, tenantId],
      )
      const [entry] = rows
      if (entry) await outbox.apply(entry.kind, [parsed({ ...entry, context: JSON.parse(entry.context) })])
      return entry !== undefined
    })
  }

  /** Deletes ids that no entry can have any more. */
  async prune(): Promise<void> {
    await this.#kernel.database.sql(
      `delete from multitenancy.outbox_received where posted_at < now() - interval '${KEPT_DAYS} days'`,
    )
  }

  async #applyAll(kind: string, waiting: readonly Waiting[]): Promise<Outage[]> {
    const { database, outbox, log } = this.#kernel
    try {
      await database.transaction(() => outbox.apply(kind, waiting.map(parsed)))
      return []
    } catch (error) {
      if (mayPass(error)) return [{ waiting, error }]
      const [first, ...others] = waiting
      if (first && others.length === 0) {
        const { id, tenantId } = first
        log.error({ err: error, id, tenantId, kind }, 'an entry of the outbox could not be applied')
        await this.#keepFailed(first, messageOf(error))
        return []
      }
      for (const [at, one] of waiting.entries()) {
        const [outage] = await this.#applyAll(kind, [one])
        if (outage) return [{ ...outage, waiting: waiting.slice(at) }]
      }
      return []
    }
  }

  async #keepFailed(entry: Waiting, error: string): Promise<void> {
    const { database, log } = this.#kernel
    try {
      await database.transaction(() => this.#insertFailed(entry, error))
    } catch (failure) {
      if (mayPass(failure)) throw failure
      const { id, tenantId, kind } = entry
      log.error(
        { err: failure, id, tenantId, kind },
        'a failed entry of the outbox could not be stored with its arguments',
      )
      const reason = `The entry could not be stored with its arguments (SQLSTATE ${sqlState(failure) ?? 'unknown'}).`
      await this.#insertFailed({ ...entry, payload: 'null', context: withoutMac(tenantId) }, reason)
    }
  }

  async #insertFailed(
    { id, tenantId, kind, payload, context, postedAt, isOld = false }: Waiting,
    error: string,
  ): Promise<void> {
    const { database, clock } = this.#kernel
    await database.sql(
      `insert into multitenancy.outbox_failed
         (id, tenant_id, kind, payload, context, posted_at, failed_at, error, is_old)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing`,
      [id, tenantId, kind, payload, JSON.stringify(context), postedAt, clock.now(), error, isOld],
    )
  }
}

const parsed = ({ kind: _, isOld: __, posted: ___, payload, ...entry }: Waiting): OutboxEntry => ({
  ...entry,
  payload: JSON.parse(payload),
})

export const mayPass = (error: unknown): boolean =>
  DependencyUnavailable.matches(error) ||
  isDatabaseUnavailable(error) ||
  writeFailure(error) !== undefined ||
  PASSING.has(sqlState(error) ?? '')

/** Messages of a database contain names of tables, rows and servers. Others may contain arguments of the call. */
export const messageOf = (error: unknown): string =>
  error instanceof TenancyError
    ? toPostgresText(error.message)
    : 'The entry could not be applied. See the log for the cause.'
