/**
 * What the satellite can do: keep subscriptions, dispatch events to them, and say what became of each delivery. How a delivery goes
 * is told in delivery.ts, who claims it in functions.ts, who sends it in worker/worker.ts.
 */
import { LRUCache } from 'lru-cache'
import type { z } from 'zod'
import type { PageOf } from '../../kernel/api/page.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { type Database, isDatabaseUnavailable } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { EventType } from '../../kernel/events/events.ts'
import type { QueueCounts } from '../../kernel/jobs/jobs.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { Listener, type ListenerDependencies, type ListenOptions } from './listener.ts'
import type { Delivery, DeliveryDetail } from './model/delivery.ts'
import { WebhookDisabled } from './model/errors.ts'
import { EventName, TEST_EVENT } from './model/event-names.ts'
import type { Options } from './model/options.ts'
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
import { Dispatch, type Sender } from './queue/dispatch.ts'
import { Inspection } from './queue/doctor-queries.ts'
import { Partitions } from './queue/partitions.ts'
import { PermanentFailureHandler } from './queue/permanent-failure.ts'
import { forgetTenant } from './queue/purge.ts'
import { type Claimed, DeliveryQueue, type Settlement } from './queue/queue.ts'
import { ReleasedClaims } from './queue/released-claims.ts'
import { WebhookSeries } from './series.ts'
import { Catalogue } from './subscriptions/catalogue.ts'
import { actionOf, type Owner, Subscriptions } from './subscriptions/subscriptions.ts'
import { type TailedAttempt, type TailOptions, tail } from './tail.ts'
import { DEFAULT_TIMING, DeliveryWorker, type WorkerOptions, type WorkerTiming } from './worker/worker.ts'

/** To the database, for dispatching, claiming and settling, each of which is one statement at a time. */
const OWN_CONNECTIONS = 3
const SECRETS_KEPT = 1_000

export class Webhooks {
  readonly catalogue: Catalogue
  readonly partitions: Partitions
  readonly inspection: Inspection
  readonly series = new WebhookSeries()
  readonly #kernel: Kernel
  readonly #options: Options
  readonly #subscriptions: Subscriptions
  readonly #deliveries: Deliveries
  readonly #dispatch: Dispatch
  /** Its connections keep their plans, and wait for nobody's transactions. */
  readonly #own: Database
  readonly #worker: DeliveryWorker
  readonly #permanentFailures: PermanentFailureHandler
  readonly #decryptedSecrets = new LRUCache<string, readonly string[]>({ max: SECRETS_KEPT })
  /** Told of each request that this process has settled. */
  readonly #watching = new Set<() => void>()

  constructor(kernel: Kernel, options: Options) {
    this.#kernel = kernel
    this.#options = options
    const wake = () => this.#worker.wake()
    const sender: Sender = {
      wake,
      offer: () => this.#worker.offer(),
      take: (offer, deliveries) => this.#worker.take(offer, deliveries),
    }
    this.catalogue = new Catalogue(kernel)
    this.partitions = new Partitions(kernel, options.retentionDays)
    this.#subscriptions = new Subscriptions(kernel)
    this.inspection = new Inspection(kernel, this.#subscriptions, this.partitions, options.retentionDays)
    this.#deliveries = new Deliveries(kernel, this.#subscriptions, options, wake)
    this.#own = kernel.database.apart(OWN_CONNECTIONS)
    this.#dispatch = new Dispatch(kernel, this.#own, sender)
    this.#permanentFailures = new PermanentFailureHandler(kernel)
    this.#worker = this.deliveryWorker(kernel.egress)
  }

  /** @param owner a tenant's id, or null for the host's own, which hear of all tenants; the newest first */
  async list(owner: Owner, page: z.input<typeof ListQuery> = {}): Promise<PageOf<Subscription>> {
    return this.#subscriptions.list(owner, parsed(ListQuery, page))
  }

  async get(owner: Owner, webhookId: string): Promise<Subscription> {
    return this.#subscriptions.get(owner, webhookId)
  }

  /** As `get`; it stays so until the transaction in progress ends. */
  lock(owner: Owner, webhookId: string): Promise<Subscription> {
    return this.#subscriptions.lock(owner, webhookId)
  }

  /** Returns its secret, this once. `E_URL_NOT_ALLOWED`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`, or a 400. */
  create(owner: Owner, request: z.input<typeof NewSubscription>): Promise<SubscriptionWithSecret> {
    return this.#subscriptions.create(owner, request)
  }

  /** What is left out stays. `enabled: true` begins anew after it was disabled. */
  update(owner: Owner, webhookId: string, request: z.input<typeof SubscriptionChange>): Promise<Subscription> {
    return this.#subscriptions.update(owner, webhookId, request)
  }

  delete(owner: Owner, webhookId: string): Promise<void> {
    return this.#subscriptions.delete(owner, webhookId)
  }

  /** Returns the new secret, this once; the one before signs too until its grace is over. */
  rotateSecret(owner: Owner, webhookId: string, request?: z.input<typeof Rotation>): Promise<SubscriptionWithSecret> {
    return this.#subscriptions.rotateSecret(owner, webhookId, request)
  }

  /**
   * Sends an event of a tenant to all who subscribed to it. Inside `tenancy.transaction` its rows join the host's own: it is sent
   * when that commits, and never if it does not. Returns the ids of the deliveries. `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when it
   * is deleted, or a 400.
   */
  dispatch(tenantId: string, event: string, payload: Readonly<Record<string, unknown>>): Promise<string[]> {
    return this.#dispatch.dispatch(tenantId, event, payload)
  }

  /** Tenantry's own events, under their dotted names. */
  bridge(type: EventType, event: Readonly<Record<string, unknown>>): Promise<void> {
    return this.#dispatch.bridge(type, event)
  }

  /** Sends an event to one subscription alone, whatever it names; `E_WEBHOOK_DISABLED`, `E_TENANT_STATE`. */
  async test(owner: Owner, webhookId: string, event: string = TEST_EVENT): Promise<Delivery> {
    const { database, clock, events } = this.#kernel
    const name = parsed(EventName, event, 'event')
    return database.transaction(async () => {
      const { id, tenantId } = await this.#subscriptions.row(owner, webhookId)
      const payload = { test: true, event: name, tenantId, occurredAt: clock.now().toISOString() }
      const deliveryId = await this.#dispatch.toOne(tenantId, id, name, payload)
      if (!deliveryId) throw WebhookDisabled('The subscription is disabled; set enabled to true first, then try again.')
      const [action, target] = [actionOf(tenantId, 'webhooks.test'), `webhook:${id}`]
      await recordChange(events, { action, tenantId, target, after: { event: name, deliveryId } })
      return this.#deliveries.short(webhookId, deliveryId)
    })
  }

  /** The newest first. */
  async deliveries(
    owner: Owner,
    webhookId: string,
    filter: z.input<typeof DeliveryQuery> = {},
  ): Promise<PageOf<Delivery>> {
    return this.#deliveries.list(owner, webhookId, parsed(DeliveryQuery, filter))
  }

  /** With its body, every attempt, and why it is where it is. */
  delivery(owner: Owner, webhookId: string, deliveryId: string): Promise<DeliveryDetail> {
    return this.#deliveries.get(owner, webhookId, deliveryId)
  }

  /**
   * Sends it again, under the same id and with a fresh budget of attempts; one that waits for its next attempt is tried at once, and
   * one that is on its way is left as it is. `E_DELIVERY_NOT_FOUND`, `E_WEBHOOK_DISABLED`.
   */
  replay(owner: Owner, webhookId: string, deliveryId: string): Promise<Delivery> {
    return this.#deliveries.replay(owner, webhookId, deliveryId)
  }

  /** Replays all that failed of what was dispatched in a window; with `dryRun` only says how many. */
  replayFailed(owner: Owner, webhookId: string, request?: z.input<typeof ReplayWindow>): Promise<{ count: number }> {
    return this.#deliveries.replayFailed(owner, webhookId, request)
  }

  settled(delivery: Delivery, signal: AbortSignal): Promise<Delivery> {
    return this.#deliveries.settled(delivery, signal)
  }

  /**
   * Sends what is due, until nothing is; returns how many requests that were. Any number may do so at once.
   * `E_DEPENDENCY_UNAVAILABLE` when the database cannot be asked what is due.
   *
   * @param onSent told after each.
   */
  async retry(signal?: AbortSignal, onSent: () => void = () => undefined): Promise<number> {
    this.#watching.add(onSent)
    try {
      return await this.#worker.pass(signal)
    } catch (error) {
      throw isDatabaseUnavailable(error) ? this.#kernel.resilience.rejection('database', error) : error
    } finally {
      this.#watching.delete(onSent)
    }
  }

  /** Begins to send what is dispatched, here or in other processes. */
  async work(): Promise<void> {
    await this.partitions.keep().catch((error) => {
      this.#kernel.log.warn({ err: error }, 'partitions of webhooks could not be kept; the hourly job tries again')
    })
    await this.#worker.start()
  }

  /** There may be something to send. */
  wake(): void {
    this.#worker.wake()
  }

  async stop(): Promise<void> {
    await this.#worker.stop()
    await this.#permanentFailures.stop()
  }

  /**
   * Events of a tenant, sent to an address of this machine for as long as somebody listens. `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`
   * when it is deleted, `E_URL_NOT_ALLOWED`, or a 400.
   */
  listen(options: ListenOptions): Promise<Listener> {
    const worker: ListenerDependencies['worker'] = (egress, only) => this.deliveryWorker(egress, only)
    return Listener.open({ kernel: this.#kernel, subscriptions: this.#subscriptions, worker }, options)
  }

  /** A tenant's attempts as they are made; `E_TENANT_NOT_FOUND`. */
  tail(tenantId: string, options: TailOptions): AsyncGenerator<TailedAttempt> {
    return tail(this.#kernel, this.#options.timeoutMs, tenantId, options)
  }

  queues(tenantId?: string): Promise<QueueCounts[]> {
    return countsOf(this.#kernel, tenantId)
  }

  /** Removes what a purged tenant had; what the host's own subscriptions hear of it is the host's. */
  forget(tenantId: string): Promise<void> {
    return forgetTenant(this.#kernel.database, tenantId)
  }

  /**
   * A worker of its own.
   *
   * @param listener it sends for nobody else, and there; what becomes of it concerns nobody else either
   * @param timing other intervals, for tests
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
    let decrypted = this.#decryptedSecrets.get(key)
    if (!decrypted) {
      decrypted = this.#subscriptions.decryptSecrets({ id: webhookId, secret, previousSecret, previousUntil })
      this.#decryptedSecrets.set(key, decrypted)
    }
    return decrypted
  }

  #noteSettled({ verdict, delivery }: Settlement, isOurs: boolean): void {
    if (isOurs) {
      this.series.add(verdict.state, (this.#kernel.clock.now().getTime() - delivery.createdAt.getTime()) / 1_000)
    }
    for (const onSent of this.#watching) onSent()
  }
}
