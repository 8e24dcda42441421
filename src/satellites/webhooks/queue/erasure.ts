/**
 * Messages and deliveries of a tenant's events, for its erasure: also those to subscriptions of the host, which a purge keeps. Reads the
 * tables once, because they have no index by tenant.
 */
import type { Database } from '../../../kernel/database/database.ts'
import type { ErasableSystem } from '../../../kernel/erasable.ts'
import type { Partitions } from './partitions.ts'

const DAY_MS = 86_400_000
const TIMEOUT_MS = 30 * 60_000
/** Deliveries first: a worker that loads a message finds it, or has lost its delivery. */
const TABLES = ['webhook_deliveries', 'webhook_attempts', 'webhook_messages', 'webhook_subscriptions']

/** @param retentionDays of messages */
export const deliveriesSystem = (retentionDays: number): ErasableSystem<{ readonly partitions: Partitions }> => ({
  name: 'webhooks',
  tables: TABLES,
  isAfterRows: true,
  find: ({ partitions: { database } }, { tenantId }) =>
    Promise.all(TABLES.map(async (kind) => ({ kind, count: await countOf(database, kind, tenantId) }))),
  async remove({ partitions: { database } }, { tenantId }) {
    for (const table of TABLES) {
      const text = `delete from multitenancy.${table} where tenant_id = $1`
      await database.sql({ text, timeoutMs: TIMEOUT_MS }, [tenantId])
    }
  },
  expires: (_, now) => [
    {
      what: 'Messages of streams to subscriptions of the host, such as the audit stream, and events that receivers have accepted',
      at: new Date(now.getTime() + retentionDays * DAY_MS),
    },
  ],
})

async function countOf(database: Database, table: string, tenantId: string): Promise<number> {
  const text = `select count(*) as count from multitenancy.${table} where tenant_id = $1`
  return (await database.sql({ text, timeoutMs: TIMEOUT_MS }, [tenantId])).rows[0].count
}
