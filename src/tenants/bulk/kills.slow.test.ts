/** A bulk job whose process is killed with SIGKILL: another process continues it, and no change is without its result. */
import { expect, inject, onTestFinished, test } from 'vitest'
import { startChild } from '../../../test/support/child.ts'
import { eventually, testTenancy } from '../../testing/base/tenancy.ts'
import type { Bulk } from './bulk.ts'

const WORKER = new URL('../lifecycle/worker-process.fixture.ts', import.meta.url)
const IDS = Array.from({ length: 30 }, (_, n) => `killed-${n}`)

test('a bulk job of a killed process is continued, and each tenant is changed once', async () => {
  const { tenancy, url, end } = await testTenancy(inject('postgresUrl'), { role: 'api' })
  onTestFinished(end)
  const { database } = tenancy.kernel
  for (const id of IDS) await tenancy.tenants.create({ id, name: id })
  await database.sql(`delete from multitenancy_jobs.job where name = 'tenantry.InstallTenant'`)
  // The process is killed between two tenants or within one.
  await database.sql(
    `create function public.slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.1); return new; end'`,
  )
  await database.sql(
    `create trigger slow before update on multitenancy.bulk_items for each row execute function public.slow()`,
  )
  const bulk = tenancy.operations.find(({ what }) => what.name === 'bulk.start')?.service as Bulk
  const { id } = await bulk.start({ operation: 'tenants.enterMaintenance', tenantIds: IDS })

  const child = await startChild(WORKER, { url, migrations: [] })
  await eventually(async () => expect((await bulk.get(id)).done).toBeGreaterThan(2), 60_000)
  await child.kill('SIGKILL')
  await database.sql('drop trigger slow on multitenancy.bulk_items')
  const killed = await bulk.get(id)
  const { rows } = await database.sql(
    'select count(*)::int as changed from multitenancy.tenants where maintenance is not null',
  )
  expect(killed).toMatchObject({ state: 'running', done: rows[0].changed })
  expect(killed.pending).toBeGreaterThan(0)

  await database.sql(`update multitenancy.bulk_jobs set lease_until = now() - interval '1 second' where id = $1`, [id])
  await bulk.work(id, { signal: new AbortController().signal })
  expect(await bulk.get(id)).toMatchObject({ state: 'completed', done: IDS.length, unchanged: 0, failed: 0 })
})
