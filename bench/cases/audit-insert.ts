/**
 * What it costs that entries of the audit log will be sealed: recording one, with the sealer at work, against a plain insert of the
 * same row into a table of the same shape, which is in no partitions and waits for nothing.
 */
import { randomUUID } from 'node:crypto'
import { auditLogs } from 'tenantry/satellites/audit-logs'
import type { Tenancy } from '../../src/index.ts'
import { type Bench, compare, perSecond, RUNS } from '../measure.ts'
import { withTenancy } from '../tenancy.ts'

const IN_FLIGHT = 8
const TENANTS = 100
const AFTER = { name: 'Acme Ltd', metadata: { plan: 'pro', seats: 25 } }
const SEALED_EVERY_MS = 1_000

export const auditInsert = {
  name: 'audit',
  run: ({ postgresUrl, quick }: Bench) =>
    withTenancy(
      postgresUrl,
      async (opened) => {
        const tenancy = opened as unknown as Tenancy<[ReturnType<typeof auditLogs>]>
        const { database } = tenancy.kernel
        await database.sql(
          `create table public.plain (like multitenancy.audit_entries including defaults);
           alter table public.plain add primary key (created_at, id);
           create index on public.plain (tenant_id, created_at desc, id desc)`,
        )
        let n = 0
        const change = () => ({
          id: randomUUID(),
          occurredAt: new Date().toISOString(),
          requestId: null,
          action: 'tenants.update',
          tenantId: `tenant-${n++ % TENANTS}`,
          target: 'tenant:acme',
          before: null,
          after: AFTER,
          outcome: 'success' as const,
        })
        const ms = quick ? 300 : 3_000
        const ours = async () => {
          const sealing = setInterval(() => void tenancy.auditLogs.sealer.seal(), SEALED_EVERY_MS)
          const rate = await perSecond(IN_FLIGHT, ms, () => tenancy.auditLogs.append(change()))
          clearInterval(sealing)
          await tenancy.auditLogs.sealer.seal()
          return rate
        }
        const plain = () =>
          perSecond(IN_FLIGHT, ms, () => {
            const { id, tenantId, action, target, before, after, outcome, occurredAt } = change()
            return database.sql(
              `insert into public.plain (id, tenant_id, action, actor_type, actor_id, actor_name, target,
                 before, after, request_id, ip, outcome, created_at)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
              [id, tenantId, action, 'host', 'host', 'host', target, before, after, null, null, outcome, occurredAt],
            )
          })
        await ours()
        await plain()
        const measured = await compare(quick ? 1 : RUNS, ours, plain)
        const { ok } = await tenancy.auditLogs.verify()
        if (!ok) throw new Error('the log is not as it was sealed')
        return [
          {
            name: 'audit entries, to be sealed',
            against: 'plain inserts of the same row',
            unit: 'entries/s',
            ...measured,
            ratio: measured.ours / measured.reference,
            goal: 0.9,
          },
        ]
      },
      { satellites: [auditLogs()], role: 'api' },
    ),
}
