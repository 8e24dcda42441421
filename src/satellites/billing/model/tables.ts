/**
 * Tables of billing. They contain no personal data: of events only the members that stripe/redaction.ts keeps, of
 * customers only ids.
 *
 * - `billing_inbox`: each event of the provider once. `published_at`: its typed events were published, so a replay
 *   publishes nothing again. `rejected_for`: it waits until the tenant's other customer is deleted.
 * - `billing_dunning`: a case for each billing period of a subscription with a failed payment; an `InvoiceRecord` for
 *   each of its invoices.
 * - `billing_usage`: usage to report; its id is the identifier at the provider. `billing_usage_watermarks`: how much of
 *   each day's counters it contains, by store. `billing_metered_quotas`: the time from which a quota is billed.
 */
import type { Migration } from '../../../kernel/database/migrations.ts'
import type { BillingErrorCode, ProviderItem, SubscriptionStatus } from './provider.ts'

/** State of one invoice in a dunning case. Times are ISO texts, as stored. */
export interface InvoiceRecord {
  readonly attempt: number
  /** Time at which the last attempt failed; null while attempts remain. */
  readonly exhaustedAt: string | null
  readonly isSettled: boolean
}

export type Records = Readonly<Record<string, InvoiceRecord>>

export interface CustomerRow {
  customerId: string
  tenantId: string
  mappedAt: Date
  /** Null while it is the tenant's. */
  closedAt: Date | null
  /** `deleted` at the provider, or `detached`: the customer continues at the provider without the tenant. */
  closedAs: 'deleted' | 'detached' | null
}

export interface SubscriptionRow {
  id: string
  tenantId: string
  customerId: string
  status: SubscriptionStatus
  items: ProviderItem[]
  periodStart: Date | null
  periodEnd: Date | null
  trialEnd: Date | null
  cancelAtPeriodEnd: boolean
  cancelAt: Date | null
  endedAt: Date | null
  isCollectionPaused: boolean
  createdAt: Date
  /** Time of this state at the provider. An older state does not replace a newer one. */
  asOf: Date
}

export type InboxStatus = 'waiting' | 'completed' | 'ignored' | 'failed'

export interface InboxRow {
  eventId: string
  type: string
  customerId: string | null
  payload: Record<string, unknown>
  isLive: boolean
  createdAt: Date
  receivedAt: Date
  /** Fetched by a backfill, and not (yet) sent by the provider. */
  isFetched: boolean
  status: InboxStatus
  attempts: number
  errorCode: BillingErrorCode | null
  processedAt: Date | null
  publishedAt: Date | null
  /** Tenant that had another customer when the event was rejected. */
  rejectedFor: string | null
}

export interface DunningRow {
  subscriptionId: string
  periodEnd: Date
  tenantId: string
  invoices: Records
  state: 'retrying' | 'grace' | 'downgraded' | 'suspended' | 'recovered' | 'ended'
  graceUntil: Date | null
  /** Time at which dunning suspended the tenant; null if it did not, or if the tenant was already suspended. */
  suspendedAt: Date | null
  /**
   * The suspension is pending: the tenant was deleted or not yet installed, and no operator has decided otherwise
   * since.
   */
  isSuspensionDue: boolean
  openedAt: Date
  closedAt: Date | null
}

export interface UsageRow {
  id: string
  tenantId: string
  meter: string
  quantity: number
  usedAt: Date
  /** Time of the first report that may have counted; null if no report may have counted. */
  firstSentAt: Date | null
  /** Number of reports that have left and were not rejected. */
  unanswered: number
  sentAt: Date | null
  errorCode: BillingErrorCode | null
  /** Number of failed attempts. */
  attempts: number
  /** Time of the next attempt; null if there is none. */
  nextAttemptAt: Date | null
  /** Time at which sending stopped because the usage may have counted; null if it did not stop. */
  heldAt: Date | null
}

export interface HealthRow {
  measuredAt: Date
  durationMs: number | null
  errorCode: BillingErrorCode | null
}

export interface BillingTables {
  billingCustomers: CustomerRow
  billingSubscriptions: SubscriptionRow
  billingInbox: InboxRow
  billingDunning: DunningRow
  billingUsage: UsageRow
  billingHealth: HealthRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_billing',
    up: `
      create table billing_customers (
        customer_id text collate "C" primary key,
        tenant_id text not null references tenants,
        mapped_at timestamptz(3) not null,
        closed_at timestamptz(3),
        closed_as text check (closed_as in ('deleted', 'detached')),
        check ((closed_at is null) = (closed_as is null))
      );
      create unique index billing_customers_tenant on billing_customers (tenant_id) where closed_at is null;
      create index billing_customers_all on billing_customers (tenant_id);

      create table billing_subscriptions (
        id text collate "C" primary key,
        tenant_id text not null references tenants,
        customer_id text collate "C" not null,
        status text not null,
        items jsonb not null,
        period_start timestamptz(3),
        period_end timestamptz(3),
        trial_end timestamptz(3),
        cancel_at_period_end boolean not null,
        cancel_at timestamptz(3),
        ended_at timestamptz(3),
        is_collection_paused boolean not null,
        created_at timestamptz(3) not null,
        as_of timestamptz(3) not null
      );
      create index billing_subscriptions_tenant on billing_subscriptions (tenant_id);

      create table billing_inbox (
        event_id text collate "C" primary key,
        type text not null,
        customer_id text collate "C",
        payload jsonb not null,
        is_live boolean not null,
        created_at timestamptz(3) not null,
        received_at timestamptz(3) not null,
        is_fetched boolean not null default false,
        status text not null default 'waiting' check (status in ('waiting', 'completed', 'ignored', 'failed')),
        attempts int not null default 0,
        error_code text,
        processed_at timestamptz(3),
        published_at timestamptz(3),
        rejected_for text
      );
      create index billing_inbox_open on billing_inbox (received_at) where status in ('waiting', 'failed');
      create index billing_inbox_sent on billing_inbox (received_at) where not is_fetched;
      create index billing_inbox_customer on billing_inbox (customer_id);
      create index billing_inbox_processed on billing_inbox (processed_at) where processed_at is not null;
      create index billing_inbox_rejected on billing_inbox (rejected_for) where rejected_for is not null;

      create table billing_dunning (
        subscription_id text collate "C" not null,
        period_end timestamptz(3) not null,
        tenant_id text not null references tenants,
        invoices jsonb not null,
        state text not null
          check (state in ('retrying', 'grace', 'downgraded', 'suspended', 'recovered', 'ended')),
        grace_until timestamptz(3),
        suspended_at timestamptz(3),
        is_suspension_due boolean not null default false,
        opened_at timestamptz(3) not null,
        closed_at timestamptz(3),
        primary key (subscription_id, period_end)
      );
      create index billing_dunning_tenant on billing_dunning (tenant_id);
      create index billing_dunning_due on billing_dunning (grace_until) where state = 'grace';

      create table billing_usage (
        id uuid primary key,
        tenant_id text not null references tenants,
        meter text not null,
        quantity bigint not null,
        used_at timestamptz(3) not null,
        first_sent_at timestamptz(3),
        unanswered int not null default 0,
        sent_at timestamptz(3),
        error_code text,
        attempts int not null default 0,
        next_attempt_at timestamptz(3),
        held_at timestamptz(3)
      );
      create index billing_usage_open on billing_usage (next_attempt_at) where sent_at is null;
      create index billing_usage_sent on billing_usage (sent_at) where sent_at is not null;
      create index billing_usage_tenant on billing_usage (tenant_id, sent_at);
      create table billing_usage_watermarks (
        tenant_id text not null references tenants,
        quota text collate "C" not null,
        day date not null,
        store text collate "C" not null,
        counted bigint not null,
        primary key (tenant_id, quota, day, store)
      );
      create table billing_metered_quotas (
        quota text collate "C" primary key,
        since timestamptz(3) not null
      );

      create table billing_health (
        is_only boolean primary key default true check (is_only),
        measured_at timestamptz(3) not null,
        duration_ms int,
        error_code text
      );
    `,
  },
  {
    name: '0002_billing_of_all',
    up: [
      'drop index concurrently if exists billing_subscriptions_status',
      'create index concurrently billing_subscriptions_status on billing_subscriptions (status, tenant_id)',
      'drop index concurrently if exists billing_dunning_open',
      'create index concurrently billing_dunning_open on billing_dunning (tenant_id) where closed_at is null',
    ],
  },
]
