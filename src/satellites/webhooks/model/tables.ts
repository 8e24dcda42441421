/**
 * Tables of webhooks. A message is a dispatched event. A delivery is one message for one subscription, and an entry of the queue. An
 * attempt is one request.
 *
 * - Messages, deliveries and attempts are partitioned by the time in their ids (UUIDv7). A delivery has the millisecond of its message,
 *   so partitions of the same time are dropped together. There are no foreign keys to them: a foreign key would prevent drops, and lock
 *   a tenant's row at each dispatch.
 * - `is_ready` deliveries can be claimed. Their index is ordered by partition key, subscription and tenant of the event, so that a claim
 *   takes some of each.
 * - Deliveries with `due_at` that are not ready wait for that time: a retry, or the end of a worker's lease. A second index orders
 *   retries by tenant, so that many due retries of one tenant do not delay others.
 */
import type { Migration } from '../../../kernel/database/migrations.ts'
import { dispatchingWithAudiences, dispatchingWithEnvelopes, dispatchingWithTraces } from '../sql/dispatch.ts'
import { functions } from '../sql/functions.ts'
import { indexing } from '../sql/indexes.ts'
import type { DeliveryState } from './delivery.ts'

export interface SubscriptionRow {
  id: string
  /** Null: the host's, for events of all tenants. */
  tenantId: string | null
  url: string
  events: string[]
  description: string | null
  enabled: boolean
  /** Whether bodies have the envelope of Standard Webhooks. */
  envelope: boolean
  disabledReason: string | null
  /** Encrypted, bound to the id of the row; empty after the subscription is deleted. */
  secret: string
  /** The previous secret, during a rotation. */
  previousSecret: string | null
  previousUntil: Date | null
  /** Start of an unbroken series of failures. */
  failingSince: Date | null
  /** Incremented with each new URL and each time the subscription is enabled again. */
  generation: number
  /** Of `webhooks:listen`: the end of its lease. */
  listeningUntil: Date | null
  createdAt: Date
  updatedAt: Date
  deletedAt: Date | null
}

export interface MessageRow {
  id: string
  tenantId: string | null
  event: string
  body: string
  createdAt: Date
  /** The trace of the dispatch. */
  traceparent: string | null
  /** `host`: only for subscriptions of the host. Null: for one subscription, or of a version before 0.3. */
  audience: 'all' | 'host' | null
  /** Stored only for disabled subscriptions, without a delivery. */
  isUndelivered: boolean
}

export interface DeliveryRow {
  id: string
  messageId: string
  webhookId: string
  /** The tenant of the event. */
  tenantId: string | null
  /** The tenant of the subscription; `-` for a subscription of the host. */
  partitionKey: string
  event: string
  state: DeliveryState
  isReady: boolean
  /** Pending: the time of the dispatch. Retry: the time of the next attempt. Delivering: the end of the lease. Settled: null. */
  dueAt: Date | null
  /** Id of the claim; only this claim can settle the delivery. */
  claim: string | null
  attemptCount: number
  /** Attempts before the current budget: a replay starts a new one. */
  budgetStart: number
  lastStatus: number | null
  lastError: string | null
  createdAt: Date
  deliveredAt: Date | null
}

export interface AttemptRow {
  deliveryId: string
  number: number
  tenantId: string | null
  startedAt: Date
  durationMs: number
  status: number | null
  error: string | null
  address: string | null
  requestHeaders: Record<string, string>
  responseHeaders: Record<string, string> | null
  responseBody: string | null
}

export interface WebhookTables {
  webhookSubscriptions: SubscriptionRow
  webhookMessages: MessageRow
  webhookDeliveries: DeliveryRow
  webhookAttempts: AttemptRow
}

/** The key of rows without a tenant. It sorts before all tenant ids. */
export const NO_TENANT_KEY = '-'

/** Length of the first partitions; `partitions.ts` creates later ones. */
const FIRST_PARTITION = '10 days'

export const tables: readonly Migration[] = [
  {
    name: '0001_webhooks',
    up: `
      create table webhook_subscriptions (
        id uuid primary key,
        tenant_id text collate "C" references tenants,
        url text not null,
        events text[] not null,
        description text,
        enabled boolean not null,
        disabled_reason text,
        secret text not null,
        previous_secret text,
        previous_until timestamptz(3),
        failing_since timestamptz(3),
        generation int not null default 0,
        listening_until timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        deleted_at timestamptz(3)
      );
      create index webhook_subscriptions_of_tenant on webhook_subscriptions (tenant_id, id);

      create table webhook_messages (
        id uuid primary key,
        tenant_id text collate "C",
        event text not null,
        body text not null,
        created_at timestamptz(3) not null
      ) partition by range (id);

      create table webhook_deliveries (
        id uuid primary key,
        message_id uuid not null,
        webhook_id uuid not null,
        tenant_id text collate "C",
        partition_key text collate "C" not null,
        event text not null,
        state text not null check (state in ('pending', 'delivering', 'retry_scheduled', 'delivered', 'failed')),
        is_ready boolean not null,
        due_at timestamptz(3),
        claim uuid,
        attempt_count int not null default 0,
        budget_start int not null default 0,
        last_status int,
        last_error text,
        created_at timestamptz(3) not null,
        delivered_at timestamptz(3)
      ) partition by range (id);
      create index webhook_deliveries_newest on webhook_deliveries (webhook_id, id);
      create index webhook_deliveries_failed on webhook_deliveries (webhook_id, id) where state = 'failed';
      create index webhook_deliveries_ready
        on webhook_deliveries (partition_key, webhook_id, coalesce(tenant_id, '${NO_TENANT_KEY}'), due_at) where is_ready;
      create index webhook_deliveries_later on webhook_deliveries (state, due_at) where due_at is not null and not is_ready;
      create index webhook_deliveries_retries on webhook_deliveries (coalesce(tenant_id, '${NO_TENANT_KEY}'), due_at)
        where state = 'retry_scheduled' and not is_ready;

      create table webhook_attempts (
        delivery_id uuid not null,
        number int not null,
        tenant_id text collate "C",
        started_at timestamptz(3) not null,
        duration_ms int not null,
        status int,
        error text,
        address text,
        request_headers json not null,
        response_headers json,
        response_body text,
        primary key (delivery_id, number)
      ) partition by range (delivery_id);
      create index webhook_attempts_newest on webhook_attempts (tenant_id, started_at);

      create table webhook_counters (
        tenant_id text collate "C",
        since timestamptz(0) not null,
        delivered bigint not null,
        failed bigint not null
      );
      create unique index webhook_counters_key on webhook_counters (coalesce(tenant_id, '${NO_TENANT_KEY}'), since);

      create table webhook_messages_others partition of webhook_messages default;
      create table webhook_deliveries_others partition of webhook_deliveries default;
      create table webhook_attempts_others partition of webhook_attempts default;

      create function webhook_id_floor(at timestamptz) returns uuid language sql immutable strict as $$
        select (left(digits, 8) || '-' || right(digits, 4) || '-0000-0000-000000000000')::uuid
        from lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') digits
      $$;
      do $$
      declare
        first_at timestamptz := date_trunc('day', now() at time zone 'UTC') at time zone 'UTC';
        kind text;
      begin
        foreach kind in array array['messages', 'deliveries', 'attempts'] loop
          for n in 0..2 loop
            execute format('create table webhook_%s_%s partition of webhook_%s for values from (%L) to (%L)',
              kind, to_char((first_at + n * interval '${FIRST_PARTITION}') at time zone 'UTC', 'YYYYMMDD'), kind,
              webhook_id_floor(first_at + n * interval '${FIRST_PARTITION}'),
              webhook_id_floor(first_at + (n + 1) * interval '${FIRST_PARTITION}'));
          end loop;
        end loop;
      end $$;
${functions}`,
  },
  {
    // `position`: all records up to it are accepted. The delivery in progress carries those up to `delivery_position`.
    name: '0002_webhook_streams',
    up: `
      create table webhook_streams (
        webhook_id uuid not null references webhook_subscriptions on delete cascade,
        stream text collate "C" not null,
        position bigint not null default 0,
        delivery_id uuid,
        delivery_position bigint,
        primary key (webhook_id, stream)
      );
    `,
  },
  { name: '0003_webhook_traces', up: dispatchingWithTraces },
  { name: '0004_webhook_envelopes', up: dispatchingWithEnvelopes },
  { name: '0005_webhook_audiences', up: dispatchingWithAudiences },
  { name: '0006_webhook_indexes', up: indexing },
  {
    // Of conditions of the attention list, which few rows have.
    name: '0007_webhook_attention',
    up: [
      'drop index concurrently if exists webhook_subscriptions_failing',
      `create index concurrently webhook_subscriptions_failing on webhook_subscriptions (failing_since)
         where deleted_at is null and (failing_since is not null or disabled_reason is not null)`,
      'drop index concurrently if exists webhook_counters_failed',
      'create index concurrently webhook_counters_failed on webhook_counters (since) where failed > 0',
    ],
  },
  {
    // Finds parts of URLs. Without the extension, a search reads all subscriptions.
    name: '0008_webhook_urls',
    up: [
      'drop index concurrently if exists webhook_subscriptions_urls',
      `select format('create index concurrently webhook_subscriptions_urls on webhook_subscriptions
         using gin (url %s.gin_trgm_ops) with (gin_pending_list_limit = 256) where deleted_at is null',
         extnamespace::regnamespace) as statement
       from pg_extension where extname = 'pg_trgm'`,
    ],
  },
]
