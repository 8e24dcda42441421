/** Months of an audit log with a retention of 40 days. Each test has a separate tenancy. */
import pg from 'pg'
import { afterEach, beforeEach, inject } from 'vitest'
import { recordChange } from '../../kernel/events/changes.ts'
import { type Audited, openAudited } from './audited.fixture.ts'

export const RETENTION_DAYS = 40

/** For the tests of one file. */
export function openMonths() {
  let audited: Audited
  const clients: pg.Client[] = []
  beforeEach(async () => {
    audited = await openAudited(inject('postgresUrl'), 'api', { retentionDays: RETENTION_DAYS })
  })
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.end()))
    await audited.close()
  })
  const query = async (text: string, values: unknown[] = []) =>
    (await audited.tenancy.kernel.database.sql(text, values)).rows
  return {
    query,
    kernel: () => audited.tenancy.kernel,
    tenants: () => audited.tenancy.tenants,
    log: () => audited.tenancy.auditLogs,
    setTime: (at: string) => audited.clock.set(new Date(at)),
    record: (tenantId: string | null, target: string) =>
      recordChange(audited.tenancy.kernel.events, { action: 'crm.sync', tenantId, target }),
    /** `203101`, or `others` for the default partition. */
    async months(): Promise<string[]> {
      const rows = await query(`select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = 'multitenancy.audit_entries'::regclass order by 1`)
      return rows.map(({ relname }) => relname.replace('audit_entries_', ''))
    },
    /** A connection that takes locks. It is closed with the test. */
    async connect(): Promise<pg.Client> {
      const client = new pg.Client({ connectionString: audited.url })
      await client.connect()
      clients.push(client)
      return client
    },
  }
}
