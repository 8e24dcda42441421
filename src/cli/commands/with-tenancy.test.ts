/** Tests that a command with a worker changes no jobs or schedules of other processes on the same database. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { handles, jobType } from '../../kernel/jobs/jobs.ts'
import type { Satellite } from '../../tenancy/satellite.ts'
import { TEST_APP_KEY, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type InProcess, inProcess } from '../in-process.fixture.ts'

const CountParcels = jobType({ name: 'CountParcels', summary: '', data: z.object({}) })
/** A satellite of the host, which the program does not have. */
const parcels: Satellite = {
  name: 'parcels',
  summary: '',
  service: () => ({}),
  jobs: [handles(CountParcels, async () => undefined)],
  schedule: [{ type: CountParcels, cron: '0 3 1 1 *' }],
}

let directory: string
let made: TestTenancy<[Satellite]>
let tenantry: InProcess

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-command-'))
  made = await testTenancy(inject('postgresUrl'), { satellites: [parcels] })
  tenantry = inProcess({
    DATABASE_URL: made.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
  })
})
afterAll(async () => {
  await tenantry?.close()
  await made?.end()
  await rm(directory, { recursive: true, force: true })
})

test('a command that runs jobs keeps schedules and unknown jobs of other processes', async () => {
  await made.tenancy.kernel.jobs.send(CountParcels, {}, { afterSeconds: 600 })
  await made.tenancy.stop() // otherwise the worker of this tenancy could run the job of the command
  const { kernel } = await made.open({ role: 'api', satellites: [] as never })
  const { database } = kernel
  const schedule = async () =>
    (await database.sql('select name from multitenancy_jobs.schedule order by name')).rows.map(({ name }) => name)
  const before = await schedule()
  expect(before).toContain('tenantry.CountParcels')
  expect(before).not.toContain('tenantry.SealAuditLog')
  await database.sql(
    `update multitenancy.job_names set seen_at = now() - interval '8 days' where name = 'tenantry.CountParcels'`,
  )

  const created = tenantry.start(['tenant:create', 'Acme', '--id', 'acme', '--allow-different-settings'], {
    isAlone: true,
  })
  expect(await created.ended).toMatchObject({ code: 0 })
  expect(await schedule()).toEqual(before)
  const { rows } = await database.sql(`select name, state from multitenancy_jobs.job where data = '{}'`)
  expect(rows).toEqual([{ name: 'tenantry.CountParcels', state: 'created' }])
})
