import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'
import type { TenantMigration } from '../../isolation/migrations.ts'
import { CloneTenant } from '../requests/job-types.ts'

const NOTES: TenantMigration = { name: '0001_notes', checksum: '1', up: 'create table notes ()' }
/** The server reports the state from a statement of the migration, as it does on a full disk. */
const raising = (state: string): TenantMigration => ({ ...NOTES, up: `do $$ begin raise sqlstate '${state}'; end $$` })

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES] })
  await opened.tenancy.tenants.create({ id: 'source', name: 'Source' })
  await opened.tenancy.tenants.installation.install('source', { isLast: true })
})
afterAll(() => opened.end())

test.each(['25006', '53100', '53200', '58030'])(
  'a clone waits in a new job after SQLSTATE %s, also in its last attempt',
  async (state) => {
    const { tenants, kernel } = opened.tenancy
    const id = `state-${state}`
    const { transfer } = await tenants.transfers.clone('source', { id, name: id, data: false })
    await kernel.jobs.cancel(CloneTenant, transfer.id)
    const full = await opened.open({ role: 'api', migrations: [raising(state)] })
    const attempt = { isLast: true, signal: new AbortController().signal }
    for (let n = 0; n < 12; n++) await full.tenants.transfers.work(transfer.id, attempt)
    expect(await tenants.get(id)).toMatchObject({ status: 'provisioning', failure: null })
    expect(await tenants.transfers.get(id, transfer.id)).toMatchObject({ state: 'pending' })
    expect(await kernel.jobs.counts(id)).toMatchObject([{ queue: 'tenantry.CloneTenant', delayed: 1, waiting: 0 }])
    const { rows } = await kernel.database.sql('select attempts from multitenancy.transfers where id = $1', [
      transfer.id,
    ])
    expect(rows).toEqual([{ attempts: 0 }])

    await tenants.transfers.work(transfer.id, attempt)
    expect(await tenants.get(id)).toMatchObject({ status: 'active', failure: null })
    await full.stop()
  },
)
