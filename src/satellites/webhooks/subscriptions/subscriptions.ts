/**
 * Subscriptions as rows. A tenant's are written with the tenant locked, so that none is left behind by a purge; the host's own have
 * no tenant. A secret is encrypted with its row's id, and leaves in the answer that makes it, never again.
 *
 * One that is deleted keeps its row, without its secret, until its deliveries are gone too: they say whose they were.
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
  NewSubscription,
  Rotation,
  type Subscription,
  SubscriptionChange,
  type SubscriptionWithSecret,
  toSubscription,
} from '../model/subscription.ts'
import type { SubscriptionRow, WebhookTables } from '../model/tables.ts'
import { newSecret } from '../signature/secret.ts'
import { CHANNEL } from '../sql/functions.ts'

/** Whose: a tenant's, or with null the host's own. */
export type Owner = string | null

const SHOWN = ['url', 'events', 'description', 'enabled'] as const
/** A listener that says nothing for so long is gone. */
const LISTENER_LEASE_MS = 60_000

export class Subscriptions {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** The newest first. */
  async list(owner: Owner, page: PageOptions): Promise<PageOf<Subscription>> {
    const { database, cursors } = this.#kernel
    if (owner !== null) await assertTenantExists(database, owner)
    const query = this.#rows(owner).where('listeningUntil', 'is', null)
    const keyset = { name: 'webhooks', filters: [owner], order: NEWEST_FIRST, item: toSubscription }
    return cursors.keysetPage(query, keyset, page)
  }

  /** `E_WEBHOOK_NOT_FOUND`, also when it is another's. */
  async row(owner: Owner, webhookId: string): Promise<SubscriptionRow> {
    if (owner !== null) await assertTenantExists(this.#kernel.database, owner)
    if (!isUuid(webhookId)) notThere(owner)
    const row = await this.#rows(owner).where('id', '=', webhookId).executeTakeFirst()
    return row ?? notThere(owner)
  }

  async get(owner: Owner, webhookId: string): Promise<Subscription> {
    return toSubscription(await this.row(owner, webhookId))
  }

  /** As `get`; it stays so until the transaction in progress ends. */
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

  /** Nothing new is made for it, and what still waits ends as failed. */
  async delete(owner: Owner, webhookId: string): Promise<void> {
    await this.#changing(owner, async () => {
      const before = await this.#lock(owner, webhookId)
      const gone = { secret: '', previousSecret: null, previousUntil: null, listeningUntil: null }
      const after = await this.#write(webhookId, { ...gone, deletedAt: this.#kernel.clock.now() })
      if (!before.listeningUntil) await this.#record('webhooks.delete', after, pick(before, SHOWN), null)
    })
  }

  /** The secret before signs beside the new one until the time given is over. */
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

  /** One that lives as long as somebody listens; nobody else sends anything for it. */
  async beginListening(
    owner: Owner,
    { events, secret, to }: { readonly events: readonly string[]; readonly secret: string; readonly to: string },
  ): Promise<SubscriptionWithSecret> {
    const settings = { url: 'listener:', description: null, enabled: true, events: [...events] }
    return this.#kernel.database.transaction(async () => {
      const made = await this.#insert(owner, settings, secret, this.#kernel.clock.now())
      const target = `webhook:${made.webhookId}`
      await recordChange(this.#kernel.events, {
        action: 'webhooks.listen',
        tenantId: owner,
        target,
        after: { to, events: [...events] },
      })
      await this.goOnListening(made.webhookId)
      return made
    })
  }

  /** For a while from now, by the clock of the database. False when it is gone: with its tenant, or because somebody deleted it. */
  async goOnListening(webhookId: string): Promise<boolean> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      `update multitenancy.webhook_subscriptions
       set listening_until = clock_timestamp() + ($2::float8 + ${LISTENER_LEASE_MS}) * interval '1 millisecond'
       where id = $1 and listening_until is not null and deleted_at is null and enabled returning id`,
      [webhookId, shiftMs(clock)],
    )
    return rows.length > 0
  }

  /** Also when its tenant is being deleted, or has been: nothing is waited for. */
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

  /** What the row holds, opened; nothing of a rotation that is over. */
  decryptSecrets({ id, secret, previousSecret, previousUntil }: EncryptedSecrets): string[] {
    const { secrets, clock } = this.#kernel
    const current = secrets.decrypt(secret, bindingOf(id))
    const isRotating = previousSecret !== null && previousUntil !== null && previousUntil > clock.now()
    return isRotating ? [current, secrets.decrypt(previousSecret, bindingOf(id))] : [current]
  }

  async #insert(
    owner: Owner,
    settings: Pick<SubscriptionRow, 'url' | 'events' | 'description' | 'enabled'>,
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

  /** Of one there is already its row alone is locked: whoever has locked the tenant does not keep a secret from being rotated. */
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
    if (!isUuid(webhookId)) notThere(owner)
    const row = await this.#rows(owner).where('id', '=', webhookId).forUpdate().executeTakeFirst()
    return row ?? notThere(owner)
  }

  #rows(owner: Owner) {
    return this.#kernel.database
      .query<WebhookTables>()
      .selectFrom('webhookSubscriptions')
      .selectAll()
      .where('tenantId', 'is not distinct from', owner)
      .where('deletedAt', 'is', null)
  }

  /** Whoever has something of it in hand forgets what it knew. */
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

/** Of a change, as its operation is called: `webhooks.create`, of the host's own `hostWebhooks.create`. */
export const actionOf = (owner: Owner, action: string): string =>
  owner === null ? `host${action.charAt(0).toUpperCase()}${action.slice(1)}` : action

export const bindingOf = (webhookId: string): string => `webhook ${webhookId}`

const pick = <Member extends keyof SubscriptionRow>(row: SubscriptionRow, members: readonly Member[]) =>
  Object.fromEntries(members.map((member) => [member, row[member]])) as Pick<SubscriptionRow, Member>

function notThere(owner: Owner): never {
  throw WebhookNotFound(
    owner === null ? 'The host has no such subscription.' : `The tenant "${owner}" has no such one.`,
  )
}
