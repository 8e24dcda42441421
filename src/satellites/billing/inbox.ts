/**
 * The inbox: every event of the provider once, with the job that processes it, in one transaction. What is received here is not lost,
 * whatever becomes of the process; what was received before is not received again.
 */
import { ProcessProviderEvent } from './job-types.ts'
import { type BillingPart, queryOf } from './part.ts'
import type { ProviderEvent } from './payments.ts'
import type { InboxRow } from './tables.ts'

/** Something is wrong when an event has waited for so long: its job was lost. */
const STUCK_MS = 600_000
const AT_ONCE = 500
const DAY_MS = 86_400_000

export interface ReplayWish {
  readonly eventId?: string | undefined
  /** All that have failed. */
  readonly failed?: boolean | undefined
  /** Only those that happened since then. */
  readonly since?: Date | undefined
}

export class Inbox {
  readonly #part: BillingPart

  constructor(part: BillingPart) {
    this.#part = part
  }

  /** False when it was there. */
  async take({ id, type, customerId, payload, isLive, createdAt }: ProviderEvent): Promise<boolean> {
    const { database, clock } = this.#part.kernel
    return database.transaction(async () => {
      const { rows } = await database.sql(
        `insert into multitenancy.billing_inbox (event_id, type, customer_id, payload, is_live, created_at, received_at)
         values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning event_id`,
        [id, type, customerId, payload, isLive, createdAt, clock.now()],
      )
      if (rows.length === 0) return false
      await this.send(id)
      return true
    })
  }

  async send(eventId: string): Promise<void> {
    await this.#part.kernel.jobs.send(ProcessProviderEvent, { eventId }, { key: eventId })
  }

  /** The oldest first. */
  replayable({
    eventId,
    failed,
    since,
  }: ReplayWish): Promise<Pick<InboxRow, 'eventId' | 'type' | 'createdAt' | 'status'>[]> {
    let query = queryOf(this.#part)
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
    const { database } = this.#part.kernel
    await database.transaction(async () => {
      await database.sql(
        `update multitenancy.billing_inbox set status = 'waiting', attempts = 0, error_code = null, processed_at = null
         where event_id = $1`,
        [eventId],
      )
      await this.send(eventId)
    })
  }

  /** Sends those again whose job was lost. */
  async resend(): Promise<number> {
    const { clock } = this.#part.kernel
    const rows = await queryOf(this.#part)
      .selectFrom('billingInbox')
      .select('eventId')
      .where('status', '=', 'waiting')
      .where('receivedAt', '<', new Date(clock.now().getTime() - STUCK_MS))
      .orderBy('receivedAt')
      .limit(AT_ONCE)
      .execute()
    for (const { eventId } of rows) await this.send(eventId)
    return rows.length
  }

  /** Removes what is done with and past its retention; what has failed stays until somebody has looked at it. */
  async cleanUp(): Promise<number> {
    const { kernel, settings } = this.#part
    const { rows } = await kernel.database.sql(
      `with removed as (
         delete from multitenancy.billing_inbox where status in ('completed', 'ignored') and processed_at < $1 returning true)
       select count(*)::int as removed from removed`,
      [new Date(kernel.clock.now().getTime() - settings.webhook.retentionDays * DAY_MS)],
    )
    return rows[0].removed
  }
}
