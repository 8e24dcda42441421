/** Counts waiting, active and settled deliveries. */
import type { QueueCounts } from '../../../kernel/jobs/jobs.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { shiftMs } from '../model/database-time.ts'
import { NO_TENANT_KEY } from '../model/tables.ts'

/** Counts by tenant. Settled deliveries count for an hour. */
export async function countsOf({ database, clock }: Kernel, tenantId?: string): Promise<QueueCounts[]> {
  const { rows } = await database.sql(
    `select coalesce(waiting.tenant_id, settled.tenant_id) as "tenantId",
       coalesce(waiting.waiting, 0) as waiting, coalesce(waiting.active, 0) as active,
       coalesce(waiting.delayed, 0) as delayed, coalesce(settled.completed, 0) as completed,
       coalesce(settled.failed, 0) as failed
     from (
       select coalesce(tenant_id, '${NO_TENANT_KEY}') as partition_key, tenant_id, count(*) filter (where state = 'pending') as waiting,
         count(*) filter (where state = 'delivering') as active,
         count(*) filter (where state = 'retry_scheduled') as delayed
       from multitenancy.webhook_deliveries
       where (is_ready or (due_at is not null and not is_ready)) and ($2::text is null or tenant_id = $2) group by 1, 2) waiting
     full join (
       select coalesce(tenant_id, '${NO_TENANT_KEY}') as partition_key, tenant_id, sum(delivered)::bigint as completed, sum(failed)::bigint as failed
       from multitenancy.webhook_counters
       where since > clock_timestamp() + $1 * interval '1 millisecond' - interval '1 hour' and ($2::text is null or tenant_id = $2)
       group by 1, 2) settled using (partition_key)
     order by 1`,
    [shiftMs(clock), tenantId ?? null],
  )
  return rows.map((row) => ({ queue: 'webhooks', ...row }))
}
