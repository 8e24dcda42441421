/** A tenant with five sealed entries for each test of a file, and statements that bypass the triggers. */
import { afterAll, beforeAll, beforeEach, inject } from 'vitest'
import { type Audited, openAudited } from './audited.fixture.ts'
import { bypassTriggers } from './bypass-triggers.fixture.ts'

/** For the tests of one file, which share the tenancy. */
export function openSealed() {
  let audited: Audited
  let made = 0
  let id = ''
  let entries: string[] = []
  const query = async (text: string, values: unknown[] = []) =>
    (await audited.tenancy.kernel.database.sql(text, values)).rows
  const seal = () => audited.tenancy.auditLogs.sealer.seal()

  beforeAll(async () => {
    audited = await openAudited(inject('postgresUrl'))
  })
  afterAll(() => audited.close())
  beforeEach(async () => {
    id = `tenant-${++made}`
    await audited.tenancy.tenants.create({ id, name: 'Acme' })
    for (const name of ['one', 'two', 'three', 'four']) {
      audited.clock.advance(1_000)
      await audited.tenancy.tenants.update(id, { name })
    }
    await seal()
    const rows = await query('select entry_id as id from multitenancy.audit_seals where tenant_id = $1 order by seq', [
      id,
    ])
    entries = rows.map((row) => row.id)
  })

  const sealed = {
    get audited() {
      return audited
    },
    /** Of the tenant. */
    get id() {
      return id
    },
    /** Of the tenant, the oldest first. */
    get entries() {
      return entries
    },
    query,
    seal,
    /** Adds an entry. */
    rename: (name: string) => audited.tenancy.tenants.update(id, { name }),
    bypassTriggers: (text: string, values?: unknown[]) => bypassTriggers(audited, text, values),
    verify: () => audited.tenancy.auditLogs.verify({ tenantId: id }),
    brokenOf: async () => (await sealed.verify()).broken.map(({ entryId, reason }) => [entryId, reason]),
  }
  return sealed
}
