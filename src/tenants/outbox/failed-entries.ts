/** Entries of the outbox that could not be applied. They are stored with their error until a retry applies them. */
import { z } from 'zod'
import type { PageOf, PageOptions } from '../../kernel/api/page.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type Application, mayPass, messageOf } from './application.ts'

export const FailedEntry = z
  .object({
    id: z.uuid(),
    tenantId: z.string(),
    kind: z.string().meta({ description: 'Call that posted the entry', example: 'webhooks.dispatch' }),
    payload: z.unknown().meta({ description: 'Arguments of the call' }),
    error: z.string().meta({ description: 'Error of the last attempt' }),
    postedAt: z.iso.datetime(),
    failedAt: z.iso.datetime(),
  })
  .meta({ id: 'FailedOutboxEntry' })
export type FailedEntry = z.output<typeof FailedEntry>

export const RetriedEntries = z
  .object({ applied: z.int(), failed: z.int().meta({ description: 'Entries that failed again' }) })
  .meta({ id: 'RetriedOutboxEntries' })

interface FailedRow {
  readonly id: string
  readonly tenantId: string
  readonly kind: string
  readonly payload: string
  readonly error: string
  readonly postedAt: Date
  readonly failedAt: Date
}

interface FailedTables {
  outboxFailed: FailedRow
}

interface Filter {
  readonly tenantId?: string | undefined
}

const ORDER = { columns: ['failedAt', 'id', 'tenantId'], direction: 'desc' } as const
const COLUMNS = ['id', 'tenantId', 'kind', 'payload', 'error', 'postedAt', 'failedAt'] as const

export class FailedEntries {
  readonly #kernel: Kernel
  readonly #application: Application

  constructor(kernel: Kernel, application: Application) {
    this.#kernel = kernel
    this.#application = application
  }

  list({ limit, cursor, tenantId }: Filter & PageOptions = {}): Promise<PageOf<FailedEntry>> {
    const { cursors, database } = this.#kernel
    let query = database.query<FailedTables>().selectFrom('outboxFailed').select(COLUMNS)
    if (tenantId !== undefined) query = query.where('tenantId', '=', tenantId)
    const keyset = { name: 'outboxFailed', filters: [tenantId], order: ORDER, item: toFailedEntry }
    return cursors.keysetPage(query, keyset, { limit, cursor })
  }

  /**
   * Applies failed entries again: all, those of a tenant, or one. Entries older than 35 days may have been applied, and
   * require their id. `E_DEPENDENCY_UNAVAILABLE`
   */
  async retry({
    tenantId,
    id,
  }: Filter & { readonly id?: string | undefined } = {}): Promise<z.output<typeof RetriedEntries>> {
    const { database, events } = this.#kernel
    const { rows } = await database.sql(
      `select id, tenant_id as "tenantId" from multitenancy.outbox_failed
       where ($1::text is null or tenant_id = $1) and (case when $2::uuid is null then not is_old else id = $2 end)
       order by failed_at, id`,
      [tenantId ?? null, id ?? null],
    )
    const counts = { applied: 0, failed: 0 }
    for (const row of rows) {
      const outcome = await this.#retryOne(row.id, row.tenantId)
      if (outcome) counts[outcome]++
    }
    await recordChange(events, {
      action: 'outbox.retry',
      tenantId: tenantId ?? null,
      target: id === undefined ? 'outbox' : `outbox:${id}`,
      after: counts,
    })
    return counts
  }

  /** Number of failed entries by kind, and the time of the oldest. */
  async byKind(): Promise<readonly { kind: string; count: number; since: Date }[]> {
    const { rows } = await this.#kernel.database.sql(
      'select kind, count(*)::int as count, min(failed_at) as since from multitenancy.outbox_failed group by kind order by kind',
    )
    return rows
  }

  async #retryOne(id: string, tenantId: string): Promise<'applied' | 'failed' | undefined> {
    const { database, clock } = this.#kernel
    try {
      return (await this.#application.retry(id, tenantId)) ? 'applied' : undefined
    } catch (error) {
      if (mayPass(error)) throw error
      await database.sql(
        'update multitenancy.outbox_failed set error = $3, failed_at = $4 where id = $1 and tenant_id = $2',
        [id, tenantId, messageOf(error), clock.now()],
      )
      return 'failed'
    }
  }
}

const toFailedEntry = ({ postedAt, failedAt, payload, ...row }: FailedRow): FailedEntry => ({
  ...row,
  payload: JSON.parse(payload),
  postedAt: postedAt.toISOString(),
  failedAt: failedAt.toISOString(),
})
