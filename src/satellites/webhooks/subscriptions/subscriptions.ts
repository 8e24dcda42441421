/**
 * Creates, changes and deletes subscriptions.
 *
 * - A new subscription locks its tenant, so that a concurrent purge does not miss it.
 * - A secret is encrypted with the id of its row. Only the response that creates it contains it.
 * - A deleted subscription keeps its row without the secret, until its deliveries are past their retention.
 */
import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import { NEWEST_FIRST, type PageOf, type PageOptions } from '../../../kernel/api/page.ts'
import { isUuid } from '../../../kernel/base/ids.ts'
import { parsed } from '../../../kernel/base/validate.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { assertTenantExists, assertTenantOpen, lockTenant } from '../../../tenants/registry/tenant-assertions.ts'
import { shiftMs } from '../model/database-time.ts'
import { WebhookNotFound } from '../model/errors.ts'
import {
  type Health,
  NewSubscription,
  Rotation,
  type Subscription,
  SubscriptionChange,
  type SubscriptionWithHealth,
  type SubscriptionWithSecret,
  toSubscription,
} from '../model/subscription.ts'
import type { SubscriptionRow, WebhookTables } from '../model/tables.ts'
import { newSecret } from '../signature/secret.ts'
import { CHANNEL } from '../sql/functions.ts'
import { healthOf } from './health.ts'

/** Id of a tenant; null for the host. */
export type Owner = string | null

const SHOWN = ['url', 'events', 'description', 'enabled', 'envelope'] as const
/** A listener that does not renew its lease for this time has ended. */
const LISTENER_LEASE_MS = 60_000

export class Subscriptions {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Newest first. */
  async list(owner: Owner, page: PageOptions): Promise<PageOf<SubscriptionWithHealth>> {
    const { database, cursors } = this.#kernel
    if (owner !== null) await assertTenantExists(database, owner)
    const query = this.#rows(owner).where('listeningUntil', 'is', null)
    const keyset = { name: 'webhooks', filters: [owner], order: NEWEST_FIRST, item: (row: SubscriptionRow) => row }
    const { data, nextCursor } = await cursors.keysetPage(query, keyset, page)
    return { data: await this.#withHealth(data), nextCursor }
  }

  /** @throws `E_WEBHOOK_NOT_FOUND`, also for a subscription of another owner */
  async row(owner: Owner, webhookId: string): Promise<SubscriptionRow> {
    if (owner !== null) await assertTenantExists(this.#kernel.database, owner)
    if (!isUuid(webhookId)) throwNotFound(owner, webhookId)
    const row = await this.#rows(owner).where('id', '=', webhookId).executeTakeFirst()
    return row ?? throwNotFound(owner, webhookId)
  }

  async get(owner: Owner, webhookId: string): Promise<SubscriptionWithHealth> {
    const [found] = await this.#withHealth([await this.row(owner, webhookId)])
    return found as SubscriptionWithHealth
  }

  async #withHealth(rows: readonly SubscriptionRow[]): Promise<SubscriptionWithHealth[]> {
    const health = await healthOf(this.#kernel.database, rows)
    return rows.map((row) => ({ ...toSubscription(row), health: health.get(row.id) as Health }))
  }

  /** Like `get`, and locks the subscription until the end of the transaction. */
  async lock(owner: Owner, webhookId: string): Promise<Subscription> {
    if (owner !== null) await assertTenantExists(this.#kernel.database, owner)
    return toSubscription(await this.#lock(owner, webhookId))
  }

  async create(owner: Owner, request: z.input<typeof NewSubscription>): Promise<SubscriptionWithSecret> {
    const { secret = newSecret(), url, ...rest } = parsed(NewSubscription, request)
    return this.#insert(owner, { ...rest, url: this.#kernel.egress.check(url).href }, secret)
  }

  async update(owner: Owner, webhookId: string, request: z.input<typeof SubscriptionChange>): Promise<Subscription> {
    const { url, ...rest } = parsed(SubscriptionChange, request)
    const changes = { ...rest, ...(url === undefined ? {} : { url: this.#kernel.egress.check(url).href }) }
    return this.#changing(owner, async () => {
      const before = await this.#lock(owner, webhookId)
      const desired = { ...before, ...changes }
      const changed = SHOWN.filter((member) => JSON.stringify(before[member]) !== JSON.stringify(desired[member]))
      if (changed.length === 0) return toSubscription(before)
      const isNewGeneration = changed.includes('url') || (desired.enabled && !before.enabled)
      const after = await this.#write(webhookId, {
        ...pick(desired, changed),
        ...(isNewGeneration ? { failingSince: null, generation: before.generation + 1 } : {}),
        ...(changed.includes('enabled') ? { disabledReason: null } : {}),
      })
      await this.#record('webhooks.update', after, pick(before, changed), pick(after, changed))
      return toSubscription(after)
    })
  }

  /** Ends its waiting deliveries as failed. */
  async delete(owner: Owner, webhookId: string): Promise<void> {
    await this.#changing(owner, async () => {
      const before = await this.#lock(owner, webhookId)
      const gone = { secret: '', previousSecret: null, previousUntil: null, listeningUntil: null }
      const after = await this.#write(webhookId, { ...gone, deletedAt: this.#kernel.clock.now() })
      if (!before.listeningUntil) await this.#record('webhooks.delete', after, pick(before, SHOWN), null)
    })
  }

  /** Generates a secret. The previous one also signs until the grace period ends. */
  async rotateSecret(
    owner: Owner,
    webhookId: string,
    request: z.input<typeof Rotation> = {},
  ): Promise<SubscriptionWithSecret> {
    const { graceSeconds } = parsed(Rotation, request)
    const { clock, secrets } = this.#kernel
    return this.#changing(owner, async () => {
      const before = await this.#lock(owner, webhookId)
      const secret = newSecret()
      const previousUntil = new Date(clock.now().getTime() + graceSeconds * 1_000)
      const after = await this.#write(webhookId, {
        secret: secrets.encrypt(secret, bindingOf(webhookId)),
        previousSecret: graceSeconds > 0 ? before.secret : null,
        previousUntil: graceSeconds > 0 ? previousUntil : null,
      })
      await this.#record('webhooks.rotateSecret', after, null, { graceSeconds })
      return { ...toSubscription(after), secret }
    })
  }

  /** Creates the subscription of a listener. Only the worker of the listener sends its deliveries. */
  async startListening(
    owner: Owner,
    { events, secret, to }: { readonly events: readonly string[]; readonly secret: string; readonly to: string },
  ): Promise<SubscriptionWithSecret> {
    const settings = { url: 'listener:', description: null, enabled: true, envelope: false, events: [...events] }
    return this.#kernel.database.transaction(async () => {
      const made = await this.#insert(owner, settings, secret, this.#kernel.clock.now())
      const target = `webhook:${made.webhookId}`
      await recordChange(this.#kernel.events, {
        action: 'webhooks.listen',
        tenantId: owner,
        target,
        after: { to, events: [...events] },
      })
      await this.renewListening(made.webhookId)
      return made
    })
  }

  /** Renews the lease of a listener. False: the subscription was deleted, or its tenant purged. */
  async renewListening(webhookId: string): Promise<boolean> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      `update multitenancy.webhook_subscriptions
       set listening_until = clock_timestamp() + ($2::float8 + ${LISTENER_LEASE_MS}) * interval '1 millisecond'
       where id = $1 and listening_until is not null and deleted_at is null and enabled returning id`,
      [webhookId, shiftMs(clock)],
    )
    return rows.length > 0
  }

  /** Ends a listener, also of a deleted tenant. It locks only the row of the subscription. */
  async endListening(webhookId: string): Promise<void> {
    const gone = { secret: '', listeningUntil: null, deletedAt: this.#kernel.clock.now() }
    await this.#kernel.database
      .query<WebhookTables>()
      .updateTable('webhookSubscriptions')
      .set(gone)
      .where('id', '=', webhookId)
      .where('listeningUntil', 'is not', null)
      .execute()
  }

  /** Returns the current secret, and the previous one until the grace period ends. */
  decryptSecrets({ id, secret, previousSecret, previousUntil }: EncryptedSecrets): string[] {
    const { secrets, clock } = this.#kernel
    const current = secrets.decrypt(secret, bindingOf(id))
    const isRotating = previousSecret !== null && previousUntil !== null && previousUntil > clock.now()
    return isRotating ? [current, secrets.decrypt(previousSecret, bindingOf(id))] : [current]
  }

  async #insert(
    owner: Owner,
    settings: Pick<SubscriptionRow, (typeof SHOWN)[number]>,
    secret: string,
    listeningUntil: Date | null = null,
  ): Promise<SubscriptionWithSecret> {
    const { database, secrets, clock } = this.#kernel
    const id = randomUUID()
    return this.#locked(owner, async () => {
      const now = clock.now()
      const row: SubscriptionRow = {
        id,
        tenantId: owner,
        ...settings,
        disabledReason: null,
        secret: secrets.encrypt(secret, bindingOf(id)),
        previousSecret: null,
        previousUntil: null,
        failingSince: null,
        generation: 0,
        listeningUntil,
        createdAt: now,
        updatedAt: now,
        deletedAt: null,
      }
      await database.query<WebhookTables>().insertInto('webhookSubscriptions').values(row).execute()
      if (!listeningUntil) await this.#record('webhooks.create', row, null, pick(row, SHOWN))
      return { ...toSubscription(row), secret }
    })
  }

  /** Runs a change of an existing subscription, which does not lock the tenant: a locked tenant does not block a rotation. */
  #changing<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    const { database } = this.#kernel
    return database.transaction(async () => {
      if (owner !== null) await assertTenantOpen(database, owner)
      return work()
    })
  }

  #locked<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    const { database } = this.#kernel
    return database.transaction(async () => {
      if (owner !== null) await lockTenant(database, owner)
      return work()
    })
  }

  async #lock(owner: Owner, webhookId: string): Promise<SubscriptionRow> {
    if (!isUuid(webhookId)) throwNotFound(owner, webhookId)
    const row = await this.#rows(owner).where('id', '=', webhookId).forUpdate().executeTakeFirst()
    return row ?? throwNotFound(owner, webhookId)
  }

  #rows(owner: Owner) {
    return this.#kernel.database
      .query<WebhookTables>()
      .selectFrom('webhookSubscriptions')
      .selectAll()
      .where('tenantId', 'is not distinct from', owner)
      .where('deletedAt', 'is', null)
  }

  /** Updates the row and notifies workers, which release their claims of it. */
  async #write(webhookId: string, set: Partial<SubscriptionRow>): Promise<SubscriptionRow> {
    const { database } = this.#kernel
    await database.notify(CHANNEL, webhookId)
    return database
      .query<WebhookTables>()
      .updateTable('webhookSubscriptions')
      .set({ ...set, updatedAt: this.#kernel.clock.now() })
      .where('id', '=', webhookId)
      .returningAll()
      .executeTakeFirstOrThrow()
  }

  #record(action: string, row: SubscriptionRow, before: Image, after: Image): Promise<void> {
    const target = `webhook:${row.id}`
    return recordChange(this.#kernel.events, {
      action: actionOf(row.tenantId, action),
      tenantId: row.tenantId,
      target,
      before,
      after,
    })
  }
}

type Image = Record<string, unknown> | null
export type EncryptedSecrets = Pick<SubscriptionRow, 'id' | 'secret' | 'previousSecret' | 'previousUntil'>

/** Name of the operation for the audit log: `webhooks.create` of a tenant, `hostWebhooks.create` of the host. */
export const actionOf = (owner: Owner, action: string): string =>
  owner === null ? `host${action.charAt(0).toUpperCase()}${action.slice(1)}` : action

export const bindingOf = (webhookId: string): string => `webhook ${webhookId}`

const pick = <Member extends keyof SubscriptionRow>(row: SubscriptionRow, members: readonly Member[]) =>
  Object.fromEntries(members.map((member) => [member, row[member]])) as Pick<SubscriptionRow, Member>

function throwNotFound(owner: Owner, webhookId: string): never {
  throw WebhookNotFound(
    owner === null
      ? `Subscription "${webhookId}" of the host not found.`
      : `Subscription "${webhookId}" of tenant "${owner}" not found.`,
  )
}
