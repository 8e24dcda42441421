/** Service of the satellite: subscriptions, dispatch, deliveries, and the worker of this process. */
import { LRUCache } from 'lru-cache'
import type { z } from 'zod'
import type { PageOf } from '../../kernel/api/page.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { type Database, isDatabaseUnavailable } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { QueueCounts } from '../../kernel/jobs/jobs.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { Listener, type ListenerDependencies, type ListenOptions } from './listener.ts'
import type { Delivery, DeliveryDetail } from './model/delivery.ts'
import { WebhookDisabled } from './model/errors.ts'
import { EventName, TEST_EVENT } from './model/event-names.ts'
import type { EventOf, Options, PayloadOf } from './model/options.ts'
import { DeliveryQuery, ListQuery } from './model/queries.ts'
import type { ReplayWindow } from './model/replay-window.ts'
import type {
  NewSubscription,
  Rotation,
  Subscription,
  SubscriptionChange,
  SubscriptionWithSecret,
} from './model/subscription.ts'
import { countsOf } from './queue/counters.ts'
import { Deliveries } from './queue/deliveries.ts'
import { Dispatch } from './queue/dispatch.ts'
import { Inspection } from './queue/doctor-queries.ts'
import { Partitions } from './queue/partitions.ts'
import { PermanentFailureHandler } from './queue/permanent-failure.ts'
import { forgetTenant } from './queue/purge.ts'
import { type Claimed, DeliveryQueue, type Settlement } from './queue/queue.ts'
import { ReleasedClaims } from './queue/released-claims.ts'
import { WebhookSeries } from './series.ts'
import { StreamSender } from './streams/stream-sender.ts'
import { Catalogue } from './subscriptions/catalogue.ts'
import { actionOf, type Owner, Subscriptions } from './subscriptions/subscriptions.ts'
import { type TailedAttempt, type TailOptions, tail } from './tail.ts'
import { DEFAULT_TIMING, DeliveryWorker, type WorkerOptions, type WorkerTiming } from './worker/worker.ts'

/** For dispatches, claims and settlements. These connections keep their plans, and do not wait for transactions of the host. */
const OWN_CONNECTIONS = 3
const MAX_CACHED_SECRETS = 1_000

export class Webhooks<Events extends object = object> {
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
  readonly #dispatch: Dispatch
  readonly #own: Database
  readonly #worker: DeliveryWorker
  readonly #permanentFailures: PermanentFailureHandler
  readonly #decryptedSecrets = new LRUCache<string, readonly string[]>({ max: MAX_CACHED_SECRETS })
  readonly #requestListeners = new Set<() => void>()

  constructor(kernel: Kernel, options: Options) {
    this.#kernel = kernel
    this.#options = options
    this.catalogue = new Catalogue(kernel, options.events)
    this.partitions = new Partitions(kernel, options.retentionDays)
    this.#subscriptions = new Subscriptions(kernel)
    this.inspection = new Inspection(kernel, this.#subscriptions, this.partitions, options.retentionDays)
    this.#own = kernel.database.apart(OWN_CONNECTIONS)
    this.#permanentFailures = new PermanentFailureHandler(kernel)
    this.#worker = this.deliveryWorker(kernel.egress)
    this.#deliveries = new Deliveries(kernel, this.#subscriptions, options, () => this.#worker.wake())
    this.#dispatch = new Dispatch(kernel, this.#own, this.#worker, options.events)
    this.internal = this.#dispatch
    this.streams = new StreamSender(kernel, this.#dispatch, this.#deliveries)
  }

  /**
   * Lists subscriptions, newest first. Errors: `E_TENANT_NOT_FOUND`.
   * @param owner id of a tenant; null for the host, whose subscriptions receive events of all tenants
   * @example const { data, nextCursor } = await webhooks.list('acme', { limit: 20 })
   */
  async list(owner: Owner, page: z.input<typeof ListQuery> = {}): Promise<PageOf<Subscription>> {
    return this.#subscriptions.list(owner, parsed(ListQuery, page))
  }

  /** @throws `E_TENANT_NOT_FOUND`, `E_WEBHOOK_NOT_FOUND` */
  async get(owner: Owner, webhookId: string): Promise<Subscription> {
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
  create(owner: Owner, request: z.input<typeof NewSubscription>): Promise<SubscriptionWithSecret> {
    return this.#subscriptions.create(owner, request)
  }

  /**
   * Changes the given members. `enabled: true` ends a series of failures. Errors: as `create`, and `E_WEBHOOK_NOT_FOUND`.
   * @example await webhooks.update('acme', webhookId, { enabled: true })
   */
  update(owner: Owner, webhookId: string, request: z.input<typeof SubscriptionChange>): Promise<Subscription> {
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
  dispatch<Event extends EventOf<Events>>(
    tenantId: string,
    event: Event,
    payload: PayloadOf<Events, Event>,
  ): Promise<string[]> {
    return this.#dispatch.dispatch(tenantId, event, payload)
  }

  /**
   * Sends a test event to one subscription, regardless of its patterns.
   * @throws `E_WEBHOOK_NOT_FOUND`, `E_WEBHOOK_DISABLED`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`, `E_INVALID_REQUEST`
   * @example const { id } = await webhooks.test('acme', webhookId)
   */
  async test(owner: Owner, webhookId: string, event: string = TEST_EVENT): Promise<Delivery> {
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
  async deliveries(owner: Owner, webhookId: string, filter?: z.input<typeof DeliveryQuery>): Promise<PageOf<Delivery>> {
    return this.#deliveries.list(owner, webhookId, parsed(DeliveryQuery, filter ?? {}))
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
    return this.#deliveries.replay(owner, webhookId, deliveryId)
  }

  /**
   * Replays failed deliveries that were dispatched in a window; with `dryRun` counts them.
   * @throws `E_WEBHOOK_NOT_FOUND`, `E_WEBHOOK_DISABLED`, `E_INVALID_REQUEST`
   * @example const { count } = await webhooks.replayFailed('acme', webhookId, { from: '2026-01-01', dryRun: true })
   */
  replayFailed(owner: Owner, webhookId: string, request?: z.input<typeof ReplayWindow>): Promise<{ count: number }> {
    return this.#deliveries.replayFailed(owner, webhookId, request)
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
    this.#requestListeners.add(onSent)
    try {
      return await this.#worker.pass(signal)
    } catch (error) {
      throw isDatabaseUnavailable(error) ? this.#kernel.resilience.rejection('database', error) : error
    } finally {
      this.#requestListeners.delete(onSent)
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
    await this.#permanentFailures.stop()
  }

  /**
   * Forwards events of a tenant to a URL of this machine, until the listener is closed.
   * @throws `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` for a deleted tenant, `E_URL_NOT_ALLOWED`, `E_INVALID_REQUEST`
   * @example const listener = await webhooks.listen({ tenantId: 'acme', url: 'http://localhost:3000/hooks', onSettled: console.log })
   */
  listen(options: ListenOptions): Promise<Listener> {
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

  /**
   * Creates a delivery worker, which its caller starts and stops. With a listener it sends only for that subscription, and permanent
   * failures have no consequences. Tests set the timing.
   */
  deliveryWorker(
    egress: Kernel['egress'],
    listener?: WorkerOptions['listener'] & { readonly onSettled: (settlement: Settlement) => void },
    timing: Partial<WorkerTiming> = {},
  ): DeliveryWorker {
    return new DeliveryWorker(
      {
        kernel: this.#kernel,
        queue: new DeliveryQueue(this.#own, this.#kernel.clock),
        releasedClaims: new ReleasedClaims(this.#own, this.#kernel),
        egress,
        ...(listener ? {} : { permanentFailures: this.#permanentFailures }),
        secretsOf: (delivery) => this.#secretsOf(delivery),
        onSettled: (settlement, { isOurs }) => {
          if (!listener) this.#noteSettled(settlement, isOurs)
          else if (isOurs) listener.onSettled(settlement)
        },
      },
      { ...DEFAULT_TIMING, ...this.#options, ...timing, ...(listener ? { listener } : {}) },
    )
  }

  #secretsOf({ webhookId, secret, previousSecret, previousUntil }: Claimed): readonly string[] {
    const isRotating = previousUntil !== null && previousUntil > this.#kernel.clock.now()
    const key = isRotating ? `${secret} ${previousSecret}` : secret
    const cached = this.#decryptedSecrets.get(key)
    if (cached) return cached
    const decrypted = this.#subscriptions.decryptSecrets({ id: webhookId, secret, previousSecret, previousUntil })
    this.#decryptedSecrets.set(key, decrypted)
    return decrypted
  }

  #noteSettled(settlement: Settlement, isOurs: boolean): void {
    if (isOurs) this.series.add(settlement, this.#kernel.clock.now())
    for (const onSent of this.#requestListeners) onSent()
  }
}
