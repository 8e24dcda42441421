/**
 * Replays deliveries.
 *
 * - A replay is one conditional statement: it restarts a settled delivery with a new budget, starts a scheduled retry immediately, and
 *   does not change a delivery in progress.
 * - Replays of many deliveries change a part in each transaction, and record it in the audit log.
 */
import type { z } from 'zod'
import { floorOfUuidsAt } from '../../../kernel/base/ids.ts'
import { parsed } from '../../../kernel/base/validate.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { assertTenantExists, lockTenant } from '../../../tenants/registry/tenant-assertions.ts'
import { shiftMs } from '../model/database-time.ts'
import type { Delivery } from '../model/delivery.ts'
import { WebhookDisabled } from '../model/errors.ts'
import { ReplayWindow } from '../model/replay-window.ts'
import type { SubscriptionRow, WebhookTables } from '../model/tables.ts'
import { CHANNEL } from '../sql/functions.ts'
import { COUNT_MISSING, CREATE_MISSING } from '../sql/missing.ts'
import { actionOf, type Owner, type Subscriptions } from '../subscriptions/subscriptions.ts'
import type { Deliveries } from './deliveries.ts'

/** Maximum of deliveries that one statement replays, and of events that it compares with the deliveries of a subscription. */
export const MAX_ROWS = 5_000

type Request = z.input<typeof ReplayWindow>
/** Times, and the same times as bounds of ids. */
interface Window {
  readonly shown: { readonly from: string; readonly to: string }
  readonly low: string
  readonly high: string
}
interface Part {
  readonly count: number
  /** Number of compared rows; absent: `count`. */
  readonly examined?: number
  /** The greatest id. */
  readonly last: string
}

export class Replays {
  readonly #kernel: Kernel
  readonly #subscriptions: Subscriptions
  readonly #deliveries: Deliveries
  readonly #wake: () => void

  /** @param wake called after the commit of a replay */
  constructor(kernel: Kernel, subscriptions: Subscriptions, deliveries: Deliveries, wake: () => void) {
    this.#kernel = kernel
    this.#subscriptions = subscriptions
    this.#deliveries = deliveries
    this.#wake = wake
  }

  /** @throws `E_WEBHOOK_NOT_FOUND`, `E_DELIVERY_NOT_FOUND`, `E_WEBHOOK_DISABLED` */
  async one(owner: Owner, webhookId: string, deliveryId: string): Promise<Delivery> {
    const { database } = this.#kernel
    const subscription = assertEnabled(await this.#subscriptions.row(owner, webhookId))
    await this.#deliveries.short(webhookId, deliveryId)
    return database.transaction(async () => {
      const { count } = await this.#restart(
        `id = $2 and webhook_id = $3 and (state in ('delivered', 'failed') or (state = 'retry_scheduled' and not is_ready))`,
        [deliveryId, webhookId],
      )
      const delivery = await this.#deliveries.short(webhookId, deliveryId)
      const after = { deliveryId, event: delivery.event }
      if (count > 0) await this.#record('webhookDeliveries.replay', subscription, after)
      return delivery
    })
  }

  /** Replays failed deliveries of a subscription that were dispatched in the window; with `dryRun` counts them. */
  async failed(owner: Owner, webhookId: string, request: Request = {}): Promise<{ count: number }> {
    const [window, isDryRun] = this.#windowOf(request)
    const subscription = await this.#subscriptions.row(owner, webhookId)
    if (isDryRun) return { count: await this.#countFailed([webhookId], window) }
    return { count: await this.#restartFailed(assertEnabled(subscription), window) }
  }

  /** The same for all enabled subscriptions of an owner. */
  async allFailed(owner: Owner, request: Request = {}): Promise<{ count: number }> {
    const { database } = this.#kernel
    const [window, isDryRun] = this.#windowOf(request)
    if (owner !== null) await assertTenantExists(database, owner)
    const subscriptions = await database
      .query<WebhookTables>()
      .selectFrom('webhookSubscriptions')
      .selectAll()
      .where('tenantId', 'is not distinct from', owner)
      .where('enabled', '=', true)
      .where('deletedAt', 'is', null)
      .where('listeningUntil', 'is', null)
      .orderBy('id')
      .execute()
    if (isDryRun) return { count: await this.#countFailed(idsOf(subscriptions), window) }
    let count = 0
    for (const subscription of subscriptions) count += await this.#restartFailed(subscription, window)
    return { count }
  }

  /**
   * Creates deliveries of stored events that match the subscription and have no delivery to it; with `dryRun` counts them. Its row is
   * locked, so that concurrent calls create each delivery once, and that of the tenant, so that a purge removes all.
   */
  async missing(owner: Owner, webhookId: string, request: Request = {}): Promise<{ count: number }> {
    const { database, clock } = this.#kernel
    const [window, isDryRun] = this.#windowOf(request)
    if (isDryRun) {
      const { id } = await this.#subscriptions.row(owner, webhookId)
      return this.#inParts(window, async (after) => {
        const values = [id, owner, after, window.high, MAX_ROWS]
        const { rows } = await database.sql(COUNT_MISSING(owner), values)
        return rows[0] as Part
      })
    }
    return this.#inParts(window, (after) =>
      database.transaction(async () => {
        if (owner !== null) await lockTenant(database, owner)
        await this.#subscriptions.lock(owner, webhookId)
        const subscription = assertEnabled(await this.#subscriptions.row(owner, webhookId))
        const values = [webhookId, owner, after, window.high, MAX_ROWS, shiftMs(clock)]
        const [made] = (await database.sql(CREATE_MISSING(owner), values)).rows as [Part]
        if (made.count > 0) {
          await this.#notify()
          await this.#record('webhooks.replayMissing', subscription, { ...window.shown, count: made.count })
        }
        return made
      }),
    )
  }

  async #countFailed(webhookIds: readonly string[], { low, high }: Window): Promise<number> {
    const { rows } = await this.#kernel.database.sql(
      `select count(*) as count from multitenancy.webhook_deliveries
       where webhook_id = any($1::uuid[]) and state = 'failed' and id >= $2 and id < $3`,
      [webhookIds, low, high],
    )
    return rows[0].count
  }

  async #restartFailed(subscription: SubscriptionRow, window: Window): Promise<number> {
    const { count } = await this.#inParts(window, (after) =>
      this.#kernel.database.transaction(async () => {
        const started = await this.#restart(
          `state = 'failed' and id in (select id from multitenancy.webhook_deliveries
             where webhook_id = $2 and state = 'failed' and id > $3 and id < $4
             order by id limit ${MAX_ROWS} for update skip locked)`, // another replay has locked the skipped rows
          [subscription.id, after, window.high],
        )
        if (started.count > 0) {
          await this.#record('webhooks.replayFailed', subscription, { ...window.shown, count: started.count })
        }
        return started
      }),
    )
    return count
  }

  /** Repeats a step until it finds no more. @param step with an id below those that it may change: no id equals the bound of a window */
  async #inParts({ low }: Window, step: (after: string) => Promise<Part>): Promise<{ count: number }> {
    let count = 0
    for (let after = low; ; ) {
      const some = await step(after)
      count += some.count
      if ((some.examined ?? some.count) < MAX_ROWS) return { count }
      after = some.last
    }
  }

  #windowOf(request: Request): [window: Window, isDryRun: boolean] {
    const { from = new Date(0), to, dryRun } = parsed(ReplayWindow, request)
    const until = to ?? new Date(this.#kernel.clock.now().getTime() + 1)
    const shown = { from: from.toISOString(), to: until.toISOString() }
    return [{ shown, low: floorOfUuidsAt(from.getTime()), high: floorOfUuidsAt(until.getTime()) }, dryRun]
  }

  /** Makes matching deliveries ready; settled ones get a new budget. */
  async #restart(where: string, values: readonly unknown[]): Promise<Part> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      `with started as (
         update multitenancy.webhook_deliveries set
           state = case when state = 'retry_scheduled' then state else 'pending' end,
           budget_start = case when state = 'retry_scheduled' then budget_start else attempt_count end,
           is_ready = true, due_at = clock_timestamp() + $1 * interval '1 millisecond', delivered_at = null
         where ${where} returning id)
       select count(*) as count, max(id::text) as last from started`,
      [shiftMs(clock), ...values],
    )
    const [started] = rows as [Part]
    if (started.count > 0) await this.#notify()
    return started
  }

  /** Call it in the transaction of the change. */
  async #notify(): Promise<void> {
    const { database } = this.#kernel
    await database.notify(CHANNEL, '')
    database.afterCommit(this.#wake)
  }

  #record(action: string, { id, tenantId }: SubscriptionRow, after: Record<string, unknown>): Promise<void> {
    const target = `webhook:${id}`
    return recordChange(this.#kernel.events, { action: actionOf(tenantId, action), tenantId, target, after })
  }
}

const idsOf = (rows: readonly SubscriptionRow[]): string[] => rows.map(({ id }) => id)

function assertEnabled(subscription: SubscriptionRow): SubscriptionRow {
  if (subscription.enabled) return subscription
  throw WebhookDisabled(`Subscription "${subscription.id}" is disabled. Set enabled to true, then try again.`)
}
