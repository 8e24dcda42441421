/**
 * The inbox: every event of the provider once, with the job that processes it, in one transaction. What is received here is not lost,
 * whatever becomes of the process; what was received before is not received again. A job carries the tenant, where it is known whose
 * the event is: many events of one tenant have their turns beside those of others.
 */

import { Batcher } from '../../../kernel/base/batcher.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { isDatabaseUnavailable } from '../../../kernel/database/database.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import { ProcessProviderEvent } from '../model/job-types.ts'
import type { ProviderEvent } from '../model/provider.ts'
import type { InboxRow } from '../model/tables.ts'

/** Something is wrong when an event has waited for so long: its job was lost. */
const STUCK_MS = 600_000
const AT_ONCE = 500
const TAKEN_AT_ONCE = 100
/** The provider is told to send again what is not written down by then; nothing that is received later waits for it. */
const TIMEOUT_MS = 5_000
const DAY_MS = 86_400_000

const AS_NEW = `status = 'waiting', attempts = 0, error_code = null, processed_at = null`

export interface ReplayOptions {
  readonly eventId?: string | undefined
  /** All that have failed. */
  readonly failed?: boolean | undefined
  /** Only those that happened since then. */
  readonly since?: Date | undefined
}

/** `isFetched`: we have asked for it; the provider has not sent it. */
interface Arrival {
  readonly event: ProviderEvent
  readonly isFetched: boolean
}

type Taken = { readonly isNew: boolean } | { readonly error: unknown }

class InsertTimeout extends Error {}

export class Inbox {
  readonly #dependencies: BillingDependencies
  readonly #batcher: Batcher<Arrival, Taken>

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
    const { database } = dependencies.kernel
    this.#batcher = new Batcher((all) => database.outside(() => this.#takeAll(all)), { maxItems: TAKEN_AT_ONCE })
  }

  /** False when it was there. What is received in one moment is one transaction, which commits before any of it is answered. */
  async take(event: ProviderEvent, { isFetched = false } = {}): Promise<boolean> {
    const taken = await this.#batcher.add({ event, isFetched })
    if ('error' in taken) throw taken.error
    return taken.isNew
  }

  send(...eventIds: readonly string[]): Promise<void> {
    return sendEvents(this.#dependencies, eventIds)
  }

  /** The oldest first. */
  replayable({
    eventId,
    failed,
    since,
  }: ReplayOptions): Promise<Pick<InboxRow, 'eventId' | 'type' | 'createdAt' | 'status'>[]> {
    let query = queryOf(this.#dependencies)
      .selectFrom('billingInbox')
      .select(['eventId', 'type', 'createdAt', 'status'])
      .orderBy('createdAt')
      .orderBy('eventId')
    if (eventId !== undefined) query = query.where('eventId', '=', eventId)
    if (failed) query = query.where('status', '=', 'failed')
    if (since) query = query.where('createdAt', '>=', since)
    return query.execute()
  }

  /** It is processed again, whatever came of it before; what it said is not said again. */
  async replay(eventId: string): Promise<void> {
    const { database } = this.#dependencies.kernel
    await database.transaction(async () => {
      await database.sql(`update multitenancy.billing_inbox set ${AS_NEW}, rejected_for = null where event_id = $1`, [
        eventId,
      ])
      await this.send(eventId)
    })
  }

  /**
   * What could not be done before it was known whose it is: some of it has failed, some waits to be tried again, and some was refused,
   * of which nothing is said yet.
   */
  async resendUnresolved(customerId: string): Promise<void> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `update multitenancy.billing_inbox set ${AS_NEW}, rejected_for = null,
         published_at = case when rejected_for is null then published_at end
       where customer_id = $1 and (rejected_for is not null
         or (status in ('failed', 'waiting') and error_code = 'tenant_not_resolvable'))
       returning event_id as "eventId"`,
      [customerId],
    )
    await this.send(...rows.map(({ eventId }) => eventId))
  }

  /** Sends those again whose job was lost. */
  async resend(): Promise<number> {
    const { clock } = this.#dependencies.kernel
    const rows = await queryOf(this.#dependencies)
      .selectFrom('billingInbox')
      .select('eventId')
      .where('status', '=', 'waiting')
      .where('receivedAt', '<', new Date(clock.now().getTime() - STUCK_MS))
      .orderBy('receivedAt')
      .limit(AT_ONCE)
      .execute()
    await this.send(...rows.map(({ eventId }) => eventId))
    return rows.length
  }

  /**
   * Removes what is done with and past its retention; what has failed stays until somebody has looked at it, and what was refused until
   * the other customer is gone.
   */
  async cleanUp(): Promise<number> {
    const { kernel, settings } = this.#dependencies
    const { rows } = await kernel.database.sql(
      `with removed as (
         delete from multitenancy.billing_inbox
         where status in ('completed', 'ignored') and processed_at < $1 and rejected_for is null returning true)
       select count(*)::int as removed from removed`,
      [new Date(kernel.clock.now().getTime() - settings.webhook.retentionDays * DAY_MS)],
    )
    return rows[0].removed
  }

  /** When one is refused, the others are not to suffer for it. */
  async #takeAll(all: readonly Arrival[]): Promise<Taken[]> {
    try {
      const news = await withTimeout(
        this.#insert(all),
        TIMEOUT_MS,
        () => new InsertTimeout('the database does not answer'),
      )
      return all.map(({ event }) => ({ isNew: news.delete(event.id) }))
    } catch (error) {
      if (all.length === 1 || error instanceof InsertTimeout || isDatabaseUnavailable(error)) {
        return all.map(() => ({ error }))
      }
      const half = Math.ceil(all.length / 2)
      return [...(await this.#takeAll(all.slice(0, half))), ...(await this.#takeAll(all.slice(half)))]
    }
  }

  /**
   * Returns those that were not there, each with its job; what was fetched, and is sent now, has been received now. In the same order
   * everywhere, so that nobody waits in a circle.
   */
  #insert(all: readonly Arrival[]): Promise<Set<string>> {
    const { database, clock } = this.#dependencies.kernel
    const rows = all.map(({ event, isFetched }) => ({ ...event, isFetched }))
    return database.transaction(async () => {
      const { rows: inserted } = await database.sql(
        `insert into multitenancy.billing_inbox
           (event_id, type, customer_id, payload, is_live, created_at, received_at, is_fetched)
         select distinct on (id) id, type, "customerId", payload, "isLive", "createdAt", $2, "isFetched"
         from json_to_recordset($1) as (
           id text, type text, "customerId" text, payload jsonb, "isLive" boolean, "createdAt" timestamptz, "isFetched" boolean)
         order by id, "isFetched"
         on conflict (event_id) do update set is_fetched = false, received_at = excluded.received_at
           where billing_inbox.is_fetched and not excluded.is_fetched
         returning event_id as "eventId", xmax = 0 as "isNew"`,
        [JSON.stringify(rows), clock.now()],
      )
      const news = new Set<string>(inserted.filter(({ isNew }) => isNew).map(({ eventId }) => eventId))
      await this.send(...news)
      return news
    })
  }
}

/** The jobs of events that were received before. */
async function sendEvents({ kernel }: BillingDependencies, eventIds: readonly string[]): Promise<void> {
  const { rows } = await kernel.database.sql(
    `select event_id as "eventId", tenant_id as "tenantId"
     from multitenancy.billing_inbox left join multitenancy.billing_customers using (customer_id)
     where event_id = any($1) order by created_at, event_id`,
    [eventIds],
  )
  const sent = rows.map(({ eventId, tenantId }) => ({
    data: { eventId },
    key: eventId,
    ...(tenantId === null ? {} : { tenantId }),
  }))
  await kernel.jobs.sendAll(ProcessProviderEvent, sent)
}

/** What was refused for a tenant has its turn, as if nothing had been said of it: the tenant's customer is gone. */
export async function sendRejected(dependencies: BillingDependencies, tenantId: string): Promise<void> {
  const { rows } = await dependencies.kernel.database.sql(
    `update multitenancy.billing_inbox set ${AS_NEW}, published_at = null, rejected_for = null where rejected_for = $1
     returning event_id as "eventId"`,
    [tenantId],
  )
  await sendEvents(
    dependencies,
    rows.map(({ eventId }) => eventId),
  )
}
