/** Queries of the doctor. They read only indexes of unsettled deliveries, and count only a part of a large backlog. */
import type { Kernel } from '../../../kernel/kernel.ts'
import { shiftMs } from '../model/database-time.ts'
import type { EncryptedSecrets, Subscriptions } from '../subscriptions/subscriptions.ts'
import type { Partition, Partitions } from './partitions.ts'

const DAY_MS = 86_400_000
/** Maximum of overdue deliveries that are counted, ready and waiting. */
const MAX_COUNTED = 10_000
const OVERDUE_SECONDS = 300
/** Time after which a due delivery counts as unattended. Workers claim a due delivery within a second. */
const UNATTENDED_SECONDS = 10
const FAILING_DAYS = 1

export interface Overdue {
  /** Tenant of the subscription; null for the host. */
  readonly tenantId: string | null
  readonly webhookId: string
  readonly url: string
  readonly count: number
  readonly since: Date
}

export interface Troubled {
  readonly tenantId: string | null
  readonly webhookId: string
  readonly url: string
  readonly disabledReason: 'gone' | 'failing' | null
  readonly failingSince: Date | null
}

export interface KeyUsage {
  readonly count: number
  readonly isCurrent: boolean
  readonly canDecrypt: boolean
}

/** Ready deliveries, and due deliveries that no claim has made ready. $1: `shiftMs`; $2: seconds since they became due. */
export const OVERDUE = `
  with moment as materialized (
    select clock_timestamp() + $1::float8 * interval '1 millisecond' - $2 * interval '1 second' as at
  ), overdue as (
    (select webhook_id, due_at from multitenancy.webhook_deliveries
     where is_ready and due_at < (select at from moment) limit ${MAX_COUNTED})
    union all
    (select webhook_id, due_at from multitenancy.webhook_deliveries
     where state in ('delivering', 'retry_scheduled') and due_at is not null and not is_ready
       and due_at < (select at from moment) limit ${MAX_COUNTED})
  )
  select s.tenant_id as "tenantId", s.id as "webhookId", s.url, o.count, o.since
  from (select webhook_id, count(*) as count, min(due_at) as since from overdue group by 1) o
  join multitenancy.webhook_subscriptions s on s.id = o.webhook_id
  where s.listening_until is null order by o.since`

/** True if any worker has an unexpired lease. $1: `shiftMs`. */
export const SENDING = `
  select exists (select from multitenancy.webhook_deliveries
    where state = 'delivering' and due_at is not null and not is_ready
      and due_at > clock_timestamp() + $1::float8 * interval '1 millisecond') as "isSending"`

export class Inspection {
  readonly database: Kernel['database']
  readonly #kernel: Kernel
  readonly #subscriptions: Subscriptions
  readonly #partitions: Partitions
  readonly #retentionDays: number

  constructor(kernel: Kernel, subscriptions: Subscriptions, partitions: Partitions, retentionDays: number) {
    this.database = kernel.database
    this.#kernel = kernel
    this.#subscriptions = subscriptions
    this.#partitions = partitions
    this.#retentionDays = retentionDays
  }

  /** Overdue deliveries by subscription, oldest first; and whether any worker sends. @param seconds since they became due */
  async overdue(seconds = OVERDUE_SECONDS): Promise<{ overdue: readonly Overdue[]; isSending: boolean }> {
    const { database, clock } = this.#kernel
    return database.transaction(async () => {
      // The planner may underestimate the number of settled rows.
      await database.sql(`select set_config('enable_seqscan', 'off', true)`)
      const { rows: overdue } = await database.sql(OVERDUE, [shiftMs(clock), seconds])
      if (overdue.length === 0) return { overdue, isSending: true }
      const { rows } = await database.sql(SENDING, [shiftMs(clock)])
      return { overdue, isSending: rows[0].isSending }
    })
  }

  /** Number of due deliveries while no worker sends. */
  async unattended(): Promise<number> {
    const { overdue, isSending } = await this.overdue(UNATTENDED_SECONDS)
    return isSending ? 0 : overdue.reduce((sum, { count }) => sum + count, 0)
  }

  /** Subscriptions that were disabled automatically, and those that have only failed for a day. */
  async troubled(): Promise<readonly Troubled[]> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      `select s.tenant_id as "tenantId", s.id as "webhookId", s.url, s.disabled_reason as "disabledReason",
         s.failing_since as "failingSince"
       from multitenancy.webhook_subscriptions s left join multitenancy.tenants t on t.id = s.tenant_id
       where s.deleted_at is null and s.listening_until is null and t.status is distinct from 'deleted' and case
         when s.enabled then s.failing_since
           < clock_timestamp() + $1::float8 * interval '1 millisecond' - interval '${FAILING_DAYS} days'
         else s.disabled_reason is not null end
       order by s.tenant_id nulls first, s.id`,
      [shiftMs(clock)],
    )
    return rows
  }

  /** Counts secrets by application key, and checks that this process can decrypt one secret of each key. */
  async keyUsage(): Promise<readonly KeyUsage[]> {
    const { database, secrets } = this.#kernel
    const { rows } = await database.sql(
      `select count(*) as count, (array_agg(id))[1] as id, (array_agg(secret))[1] as secret
       from multitenancy.webhook_subscriptions where deleted_at is null group by split_part(secret, '.', 2)`,
    )
    return rows.map(({ count, id, secret }) => ({
      count,
      isCurrent: secrets.isCurrent(secret),
      canDecrypt: this.#canDecrypt({ id, secret, previousSecret: null, previousUntil: null }),
    }))
  }

  /** Checks that partitions exist until tomorrow, and lists partitions past their retention. */
  async partitions(): Promise<{ isMissing: boolean; hasUnpartitioned: boolean; expired: readonly Partition[] }> {
    const { clock } = this.#kernel
    const known = await this.#partitions.known()
    const nowMs = clock.now().getTime()
    const retainedFrom = nowMs - (this.#retentionDays + 1) * DAY_MS
    return {
      isMissing: !known.some(({ to }) => to.getTime() > nowMs + DAY_MS),
      hasUnpartitioned: await this.#partitions.hasUnpartitioned(known),
      expired: known.filter(({ to }) => to.getTime() <= retainedFrom),
    }
  }

  #canDecrypt(encrypted: EncryptedSecrets): boolean {
    try {
      this.#subscriptions.decryptSecrets(encrypted)
      return true
    } catch {
      return false
    }
  }
}
