/**
 * Stores each event of the provider once, together with its processing job, in one transaction.
 *
 * - A stored event is not lost when the process ends. A repeated event is not stored again.
 * - The job carries the tenant if it is known, so the events of one tenant do not delay those of others.
 */

import { Batcher } from '../../../kernel/base/batcher.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { isWriteOutage } from '../../../kernel/database/write-failures.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import { ProcessProviderEvent } from '../model/job-types.ts'
import type { ProviderEvent } from '../model/provider.ts'
import type { InboxRow } from '../model/tables.ts'

/** An event that has waited for longer has lost its job. */
const STUCK_MS = 600_000
const MAX_RESENT = 500
const MAX_BATCH_SIZE = 100
/** After this time the provider is asked to send the event again. Later events do not wait for a stuck insert. */
const TIMEOUT_MS = 5_000
const DAY_MS = 86_400_000

const AS_NEW = `status = 'waiting', attempts = 0, error_code = null, processed_at = null`

export interface ReplayOptions {
  readonly eventId?: string | undefined
  /** Select failed events. */
  readonly failed?: boolean | undefined
  /** Select events that happened at this time or later. */
  readonly since?: Date | undefined
}

/** `isFetched`: fetched by a backfill, not sent by the provider. */
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
    this.#batcher = new Batcher((all) => database.outside(() => this.#takeAll(all)), { maxItems: MAX_BATCH_SIZE })
  }

  /**
   * Returns false for a known event. Concurrent events share one transaction, which commits before any call returns.
   */
  async take(event: ProviderEvent, { isFetched = false } = {}): Promise<boolean> {
    const taken = await this.#batcher.add({ event, isFetched })
    if ('error' in taken) throw taken.error
    return taken.isNew
  }

  send(...eventIds: readonly string[]): Promise<void> {
    return sendEvents(this.#dependencies, eventIds)
  }

  /** Oldest first. */
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

  /**
   * Processes an event again, regardless of its previous result. Typed events that were published are not published
   * again.
   */
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
   * Sends the customer's events that need its tenant: failed and waiting ones without a resolvable tenant, and rejected
   * ones, whose typed events have not been published.
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

  /** Sends waiting events again whose job was lost. */
  async resend(): Promise<number> {
    const { clock } = this.#dependencies.kernel
    const rows = await queryOf(this.#dependencies)
      .selectFrom('billingInbox')
      .select('eventId')
      .where('status', '=', 'waiting')
      .where('receivedAt', '<', new Date(clock.now().getTime() - STUCK_MS))
      .orderBy('receivedAt')
      .limit(MAX_RESENT)
      .execute()
    await this.send(...rows.map(({ eventId }) => eventId))
    return rows.length
  }

  /**
   * Deletes processed events after their retention. Failed events stay, and rejected ones stay until the other customer
   * is deleted.
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

  /** On an error, bisects the batch, so that one rejected event does not affect the others. */
  async #takeAll(all: readonly Arrival[]): Promise<Taken[]> {
    try {
      const news = await withTimeout(
        this.#insert(all),
        TIMEOUT_MS,
        () => new InsertTimeout('The database did not respond in time'),
      )
      return all.map(({ event }) => ({ isNew: news.delete(event.id) }))
    } catch (error) {
      if (all.length === 1 || error instanceof InsertTimeout || isWriteOutage(error)) {
        return all.map(() => ({ error }))
      }
      const half = Math.ceil(all.length / 2)
      return [...(await this.#takeAll(all.slice(0, half))), ...(await this.#takeAll(all.slice(half)))]
    }
  }

  /**
   * Returns the ids of new events, each with its job. A fetched event that the provider sends now becomes received now.
   * Rows are sorted by id, so that concurrent inserts do not deadlock.
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

/** Sends the processing jobs of stored events. */
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

/** Sends the events that were rejected for the tenant as new events, after the tenant's customer is deleted. */
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
