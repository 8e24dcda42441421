/** Service of the satellite: subscriptions, dispatch, deliveries, and the worker of this process. */
import type { z } from 'zod'
import type { PageOf } from '../../kernel/api/page.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { QueueCounts } from '../../kernel/jobs/jobs.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { Listener, type ListenerDependencies } from './listener.ts'
import type { Delivery, DeliveryDetail, DeliveryOfAny } from './model/delivery.ts'
import { WebhookDisabled } from './model/errors.ts'
import { EventName, TEST_EVENT } from './model/event-names.ts'
import type { Options } from './model/options.ts'
import { AllDeliveriesQuery, DeliveryQuery, ListQuery } from './model/queries.ts'
import type { ReplayWindow } from './model/replay-window.ts'
import { type Stats, StatsQuery } from './model/stats.ts'
import type { Rotation, Subscription, SubscriptionWithHealth, SubscriptionWithSecret } from './model/subscription.ts'
import { countsOf } from './queue/counters.ts'
import { Deliveries } from './queue/deliveries.ts'
import { DeliveryStats } from './queue/delivery-stats.ts'
import { Dispatch } from './queue/dispatch.ts'
import { Inspection } from './queue/doctor-queries.ts'
import { Partitions } from './queue/partitions.ts'
import { forgetTenant } from './queue/purge.ts'
import { Replays } from './queue/replays.ts'
import { WebhookSeries } from './series.ts'
import { StreamSender } from './streams/stream-sender.ts'
import { Catalogue } from './subscriptions/catalogue.ts'
import { actionOf, type Owner, Subscriptions } from './subscriptions/subscriptions.ts'
import { type TailedAttempt, type TailOptions, tail } from './tail.ts'
import type {
  Change,
  Creation,
  DeliveredOf,
  EventNames,
  EventOf,
  Filter,
  FilterOfAll,
  Listening,
  PayloadOf,
} from './typed-names.ts'
import type { DeliveryWorker } from './worker/worker.ts'
import { WorkerFactory } from './worker/worker-factory.ts'

/** For dispatches, claims and settlements. These connections keep their plans, and do not wait for transactions of the host. */
const OWN_CONNECTIONS = 3

export class Webhooks<N extends EventNames = EventNames> {
  readonly catalogue: Catalogue
  readonly partitions: Partitions
  readonly inspection: Inspection
  readonly series = new WebhookSeries()
  readonly streams: StreamSender
  /** For events of Tenantry and of tenants' transactions. */
  readonly internal: Pick<Dispatch, 'bridge' | 'posted'>
  readonly #kernel: Kernel
  readonly #options: Options
  readonly #subscriptions: Subscriptions
  readonly #deliveries: Deliveries
  readonly #replays: Replays
  readonly #stats: DeliveryStats
  readonly #dispatch: Dispatch
  readonly #workers: WorkerFactory
  readonly #worker: DeliveryWorker

  constructor(kernel: Kernel, options: Options) {
    this.#kernel = kernel
    this.#options = options
    this.catalogue = new Catalogue(kernel, options.events)
    this.partitions = new Partitions(kernel, options.retentionDays)
    this.#subscriptions = new Subscriptions(kernel)
    this.inspection = new Inspection(kernel, this.#subscriptions, this.partitions, options.retentionDays)
    const own = kernel.database.apart(OWN_CONNECTIONS)
    this.#workers = new WorkerFactory(kernel, own, this.#subscriptions, options, (settlement) =>
      this.series.add(settlement, kernel.clock.now()),
    )
    this.#worker = this.deliveryWorker(kernel.egress)
    this.#deliveries = new Deliveries(kernel, this.#subscriptions, options)
    this.#replays = new Replays(kernel, this.#subscriptions, this.#deliveries, () => this.#worker.wake())
    this.#stats = new DeliveryStats(kernel)
    this.#dispatch = new Dispatch(kernel, own, this.#worker, options.events)
    this.internal = this.#dispatch
    this.streams = new StreamSender(kernel, this.#dispatch, this.#deliveries)
  }

  /**
   * Lists subscriptions, newest first. Errors: `E_TENANT_NOT_FOUND`.
   * @param owner id of a tenant; null for the host, whose subscriptions receive events of all tenants
   * @example const { data, nextCursor } = await webhooks.list('acme', { limit: 20 })
   */
  async list(owner: Owner, page: z.input<typeof ListQuery> = {}): Promise<PageOf<SubscriptionWithHealth>> {
    return this.#subscriptions.list(owner, parsed(ListQuery, page))
  }

  /** @throws `E_TENANT_NOT_FOUND`, `E_WEBHOOK_NOT_FOUND` */
  async get(owner: Owner, webhookId: string): Promise<SubscriptionWithHealth> {
    return this.#subscriptions.get(owner, webhookId)
  }

  /** Like `get`, and locks the subscription until the end of the transaction. */
  lock(owner: Owner, webhookId: string): Promise<Subscription> {
    return this.#subscriptions.lock(owner, webhookId)
  }

  /**
   * Creates a subscription. Only this result contains the secret.
   * @throws `E_URL_NOT_ALLOWED`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` for a deleted tenant, `E_INVALID_REQUEST`
   * @example const { webhookId, secret } = await webhooks.create('acme', { url: 'https://receiver.example/hooks', events: ['order.*'] })
   */
  create<Pattern extends string>(owner: Owner, request: Creation<N, Pattern>): Promise<SubscriptionWithSecret> {
    return this.#subscriptions.create(owner, request)
  }

  /**
   * Changes the given members. `enabled: true` ends a series of failures. Errors: as `create`, and `E_WEBHOOK_NOT_FOUND`.
   * @example await webhooks.update('acme', webhookId, { enabled: true })
   */
  update<Pattern extends string>(owner: Owner, webhookId: string, request: Change<N, Pattern>): Promise<Subscription> {
    return this.#subscriptions.update(owner, webhookId, request)
  }

  /** Deletes a subscription; its waiting deliveries fail. @throws `E_WEBHOOK_NOT_FOUND`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` */
  delete(owner: Owner, webhookId: string): Promise<void> {
    return this.#subscriptions.delete(owner, webhookId)
  }

  /**
   * Generates a new secret. The previous one also signs for `graceSeconds`, by default a day. Only this result contains the secret.
   * @throws `E_WEBHOOK_NOT_FOUND`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`, `E_INVALID_REQUEST`
   * @example const { secret } = await webhooks.rotateSecret('acme', webhookId, { graceSeconds: 3_600 })
   */
  rotateSecret(owner: Owner, webhookId: string, request?: z.input<typeof Rotation>): Promise<SubscriptionWithSecret> {
    return this.#subscriptions.rotateSecret(owner, webhookId, request)
  }

  /**
   * Sends an event of a tenant to all matching subscriptions. Inside `tenancy.transaction` the event is sent if the transaction
   * commits, and inside `transaction` of the tenant's handle, too. The payload has 1 MiB as JSON at most; there, 256 KiB.
   * @returns the ids of the deliveries; empty inside a tenant's transaction, after whose commit they are created
   * @throws `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` for a deleted tenant, `E_INVALID_REQUEST`, also for an undeclared event
   * @example await webhooks.dispatch('acme', 'order.paid', { orderId: '1001', total: 4_200 })
   */
  dispatch<Event extends EventOf<N['event']>>(
    tenantId: string,
    event: Event,
    payload: PayloadOf<N['event'], Event>,
  ): Promise<string[]> {
    return this.#dispatch.dispatch(tenantId, event, payload)
  }

  /**
   * Sends a test event to one subscription, regardless of its patterns.
   * @throws `E_WEBHOOK_NOT_FOUND`, `E_WEBHOOK_DISABLED`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`, `E_INVALID_REQUEST`
   * @example const { id } = await webhooks.test('acme', webhookId)
   */
  async test(owner: Owner, webhookId: string, event: DeliveredOf<N> = TEST_EVENT): Promise<Delivery> {
    const { database, clock, events } = this.#kernel
    const name = parsed(EventName, event, 'event')
    return database.transaction(async () => {
      const { id, tenantId } = await this.#subscriptions.row(owner, webhookId)
      const payload = { test: true, event: name, tenantId, occurredAt: clock.now().toISOString() }
      const deliveryId = await this.#dispatch.toOne(tenantId, id, name, payload)
      if (!deliveryId) throw WebhookDisabled(`Subscription "${id}" is disabled. Set enabled to true, then try again.`)
      const [action, target] = [actionOf(tenantId, 'webhooks.test'), `webhook:${id}`]
      await recordChange(events, { action, tenantId, target, after: { event: name, deliveryId } })
      return this.#deliveries.short(webhookId, deliveryId)
    })
  }

  /** Lists deliveries, newest first. @example await webhooks.deliveries('acme', webhookId, { state: 'failed' }) */
  async deliveries(owner: Owner, webhookId: string, filter?: Filter<N>): Promise<PageOf<Delivery>> {
    return this.#deliveries.list(owner, webhookId, parsed(DeliveryQuery, filter ?? {}))
  }

  /** Lists deliveries of all subscriptions, newest first. @example await webhooks.allDeliveries({ tenantId: 'acme', status: '5xx' }) */
  async allDeliveries(filter: FilterOfAll<N> = {}): Promise<PageOf<DeliveryOfAny>> {
    return this.#deliveries.listAll(parsed(AllDeliveriesQuery, filter))
  }

  /**
   * Counts deliveries by hour or day of their dispatch, with percentiles of durations; from a sample if there are very many.
   * @throws `E_TENANT_NOT_FOUND`, `E_WEBHOOK_NOT_FOUND`, `E_INVALID_REQUEST`
   * @example const { data } = await webhooks.stats({ webhookId, from: '2026-01-01', to: '2026-01-08', step: 'day' })
   */
  async stats(request: z.input<typeof StatsQuery> = {}): Promise<Stats> {
    return this.#stats.of(parsed(StatsQuery, request))
  }

  /** Returns the body, all attempts and an explanation of the state. @throws `E_WEBHOOK_NOT_FOUND`, `E_DELIVERY_NOT_FOUND` */
  delivery(owner: Owner, webhookId: string, deliveryId: string): Promise<DeliveryDetail> {
    return this.#deliveries.get(owner, webhookId, deliveryId)
  }

  /**
   * Sends a settled delivery again, with the same id and a new budget of attempts. A scheduled retry starts immediately. A delivery in
   * progress does not change.
   * @throws `E_WEBHOOK_NOT_FOUND`, `E_DELIVERY_NOT_FOUND`, `E_WEBHOOK_DISABLED`
   * @example await webhooks.replay('acme', webhookId, deliveryId)
   */
  replay(owner: Owner, webhookId: string, deliveryId: string): Promise<Delivery> {
    return this.#replays.one(owner, webhookId, deliveryId)
  }

  /**
   * Replays failed deliveries that were dispatched in a window; with `dryRun` counts them.
   * @throws `E_WEBHOOK_NOT_FOUND`, `E_WEBHOOK_DISABLED`, `E_INVALID_REQUEST`
   * @example const { count } = await webhooks.replayFailed('acme', webhookId, { from: '2026-01-01', dryRun: true })
   */
  replayFailed(owner: Owner, webhookId: string, request?: z.input<typeof ReplayWindow>): Promise<{ count: number }> {
    return this.#replays.failed(owner, webhookId, request)
  }

  /** The same for all enabled subscriptions of a tenant, or with null of the host. @throws `E_TENANT_NOT_FOUND`, `E_INVALID_REQUEST` */
  replayAllFailed(owner: Owner, request?: z.input<typeof ReplayWindow>): Promise<{ count: number }> {
    return this.#replays.allFailed(owner, request)
  }

  /**
   * Sends events of the window that match a subscription and have no delivery to it, each once: dispatched before it existed, or while it
   * was disabled. With `dryRun` counts them. Events that matched no subscription are not stored. Errors: as `replayFailed`, and
   * `E_TENANT_STATE` for a deleted tenant.
   * @example const { count } = await webhooks.replayMissing('acme', webhookId, { from: '2026-01-01', dryRun: true })
   */
  replayMissing(owner: Owner, webhookId: string, request?: z.input<typeof ReplayWindow>): Promise<{ count: number }> {
    return this.#replays.missing(owner, webhookId, request)
  }

  /** Waits until a delivery is settled or retried, or `signal` aborts. Returns its current state. */
  settled(delivery: Delivery, signal: AbortSignal): Promise<Delivery> {
    return this.#deliveries.settled(delivery, signal)
  }

  /**
   * Sends due deliveries until none are left, also concurrently with workers. Returns the number of requests.
   * @param onSent called after each request
   * @throws `E_DEPENDENCY_UNAVAILABLE` if the database is unavailable
   * @example const sent = await webhooks.retry(AbortSignal.timeout(60_000))
   */
  async retry(signal?: AbortSignal, onSent: () => void = () => undefined): Promise<number> {
    const remove = this.#workers.onSettled(onSent)
    try {
      return await this.#kernel.resilience.whileAvailable(this.#worker.pass(signal))
    } finally {
      remove()
    }
  }

  /** Starts the worker of this process. */
  async work(): Promise<void> {
    await this.partitions.keep().catch((error) => {
      this.#kernel.log.warn({ err: error }, 'webhook partitions were not maintained; the hourly job retries')
    })
    await this.#worker.start()
  }

  /** Wakes the worker of this process. Call it when due deliveries may exist. */
  wake(): void {
    this.#worker.wake()
  }

  async stop(): Promise<void> {
    await this.#worker.stop()
    await this.#workers.stop()
  }

  /**
   * Forwards events of a tenant to a URL of this machine, until the listener is closed.
   * @throws `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` for a deleted tenant, `E_URL_NOT_ALLOWED`, `E_INVALID_REQUEST`
   * @example const listener = await webhooks.listen({ tenantId: 'acme', url: 'http://localhost:3000/hooks', onSettled: console.log })
   */
  listen<Pattern extends string>(options: Listening<N, Pattern>): Promise<Listener> {
    const worker: ListenerDependencies['worker'] = (egress, only) => this.deliveryWorker(egress, only)
    return Listener.open({ kernel: this.#kernel, subscriptions: this.#subscriptions, worker }, options)
  }

  /**
   * Streams the attempts of a tenant.
   * @throws `E_TENANT_NOT_FOUND`
   * @example for await (const { event, status } of webhooks.tail('acme', { signal })) console.log(event, status)
   */
  tail(tenantId: string, options: TailOptions): AsyncGenerator<TailedAttempt> {
    return tail(this.#kernel, this.#options.timeoutMs, tenantId, options)
  }

  queues(tenantId?: string): Promise<QueueCounts[]> {
    return countsOf(this.#kernel, tenantId)
  }

  /** Deletes the subscriptions and deliveries of a purged tenant. Deliveries to subscriptions of the host stay. */
  forget(tenantId: string): Promise<void> {
    return forgetTenant(this.#kernel.database, tenantId)
  }

  /** Creates a delivery worker, which its caller starts and stops. With a listener it sends only for that subscription. */
  deliveryWorker(...options: Parameters<WorkerFactory['create']>): DeliveryWorker {
    return this.#workers.create(...options)
  }
}
