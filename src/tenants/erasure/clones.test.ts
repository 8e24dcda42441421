/** Clones of an erased tenant. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { latchImport } from '../../../test/support/latch.ts'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { eventually } from '../../testing/base/tenancy.ts'

const signal = AbortSignal.timeout(120_000)
const only = { isLast: true, signal }

let environment: TestEnvironment
const tenants = () => environment.tenancy.tenants
const sql = async (text: string, values: unknown[] = []) =>
  (await environment.tenancy.kernel.database.sql(text, values)).rows

beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => environment.end())

test('an erasure cancels clones in progress, drops their storage, and reports completed ones', async () => {
  const { transfers } = environment
  await tenants().create({ id: 'source', name: 'source' })
  await tenants().installation.install('source', only)
  const done = await transfers.clone('source', { id: 'done', name: 'Done' })
  await transfers.work(done.transfer.id, only)
  const { transfer } = await transfers.clone('source', { id: 'copy', name: 'Copy' })
  const waiting = await transfers.clone('source', { id: 'waiting', name: 'Waiting' })
  const release = await latchImport(environment.url, 't1_copy')
  const working = transfers.work(transfer.id, only)
  await eventually(async () =>
    expect(await sql(`select locator from multitenancy.storage_locations where tenant_id = 'copy'`)).toEqual([
      { locator: 't1_copy' },
    ]),
  )

  const { erasures } = tenants()
  await erasures.request('source', { confirm: 'source', reason: 'request 4711' })
  for (const [id, { id: transferId }] of [
    ['copy', transfer],
    ['waiting', waiting.transfer],
  ] as const) {
    expect(await transfers.get(id, transferId)).toMatchObject({
      state: 'cancelled',
      failure: { code: 'E_TENANT_STATE' },
    })
    expect(await tenants().get(id)).toMatchObject({ status: 'failed' })
  }
  await release()
  await working
  const killed = { tenantId: 'waiting', isolation: 'schema-pg', placement: 'main', locator: 't2_waiting', epoch: 2 }
  await tenants().storage.driver('schema-pg').provision(killed) // as an attempt that was killed
  await sql(
    `insert into multitenancy.storage_locations (isolation, placement, locator, epoch, tenant_id, transfer_id, state, schema_version, since)
     values ('schema-pg', 'main', 't2_waiting', 2, 'waiting', $1, 'making', '', now())`,
    [waiting.transfer.id],
  )
  await erasures.work('source', { signal })

  const { state, report } = await erasures.get('source')
  expect({ state, clones: report?.clones }).toEqual({ state: 'completed', clones: ['done'] })
  expect(await sql(`select from multitenancy.storage_locations`)).toEqual([])
  expect(await sql(`select from pg_namespace where nspname in ('t1_copy', 't2_waiting', 't1_source')`)).toEqual([])
  await expect(tenants().activate('copy')).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
})
