/**
 * Benchmark of audit entries: `append` of one entry against a prepared insert of the same row into an ordinary table.
 *
 * - The table of the reference has the same columns, check, primary key and page index, but no HMAC, transaction id or
 *   partitions.
 * - Short spans alternate, and each ratio compares neighbours, so that load of the machine affects both sides.
 * - In production a worker process seals the entries; here sealing runs between the spans and is reported separately.
 */
import { randomUUID } from 'node:crypto'
import { auditLogs } from 'tenantry/satellites/audit-logs'
import type { Tenancy } from '../../src/index.ts'
import { type Bench, compare, median, perSecond, type Result, timed } from '../measure.ts'
import { withTenancy } from '../tenancy.ts'

const IN_FLIGHT = 8
const TENANTS = 100
const AFTER = { name: 'Acme Ltd', metadata: { plan: 'pro', seats: 25 } }
const SPAN_MS = 400
const ROUNDS = 30
/** Spans of each side in a round: reference, subject, subject, reference. */
const SPANS = 2

export const auditInsert = {
  name: 'audit',
  run: ({ postgresUrl, quick }: Bench) =>
    withTenancy(
      postgresUrl,
      async (opened): Promise<Result[]> => {
        const { auditLogs: log, kernel } = opened as unknown as Tenancy<[ReturnType<typeof auditLogs>]>
        const { database } = kernel
        await database.sql(
          `create table public.plain (like multitenancy.audit_entries including constraints);
           alter table public.plain drop column mac, drop column xact, add primary key (created_at, id);
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
          isChange: true,
        })
        const statement = {
          name: 'plain',
          text: `insert into public.plain (id, tenant_id, action, actor_type, actor_id, actor_name, target,
                   before, after, request_id, ip, outcome, created_at)
                 values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
        }
        const ours = () => perSecond(IN_FLIGHT, SPAN_MS, () => log.append(change()))
        const plain = () =>
          perSecond(IN_FLIGHT, SPAN_MS, () => {
            const { id, tenantId, action, target, before, after, outcome, occurredAt } = change()
            const values = [id, tenantId, action, 'host', 'host', 'host', target, before, after, null, null, outcome]
            return database.sql(statement, [...values, occurredAt])
          })

        const inserted = { ours: [] as number[], reference: [] as number[], ratio: [] as number[] }
        const sealed: number[] = []
        await compare(1, ours, plain)
        for (let round = 0; round < (quick ? 1 : ROUNDS); round++) {
          let entries = 0
          const ms = await timed(async () => {
            entries = await log.sealer.seal()
          })
          sealed.push((entries / ms) * 1_000)
          const { ours: of, reference } = await compare(SPANS, ours, plain)
          inserted.ours.push(of)
          inserted.reference.push(reference)
          inserted.ratio.push(of / reference)
        }
        await log.sealer.seal()
        const { ok } = await log.verify()
        if (!ok) throw new Error('verification of the audit log failed')
        return [
          {
            name: 'insert of audit entries',
            against: 'plain inserts of the same row',
            unit: 'entries/s',
            ours: median(inserted.ours),
            reference: median(inserted.reference),
            ratio: median(inserted.ratio),
            goal: 0.9,
          },
          { name: 'seals of audit entries', value: `${Math.round(median(sealed))} entries/s` },
        ]
      },
      { satellites: [auditLogs()], role: 'api' },
    ),
}
