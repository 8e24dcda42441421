/** Tests the service of dead letters: pages, filters, and concurrent retries. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { type TestTenancy, testTenancy } from '../testing/base/tenancy.ts'

let made: TestTenancy<[]>

beforeAll(async () => {
  made = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => made?.end())
beforeEach(() => made.tenancy.kernel.database.sql('delete from multitenancy_jobs.job'))

const letters = () => made.tenancy.tenants.deadLetters

async function add(count: number, queue = 'tenantry.PurgeTenants', tenantId: string | null = null): Promise<string[]> {
  const { rows } = await made.tenancy.kernel.database.sql(
    `insert into multitenancy_jobs.job (name, data, group_id, source_name, source_retry_count, source_output)
     select 'tenantry.dead-letter', '{}', $2, $1, 3, '{"message":"E_INTERNAL"}' from generate_series(1, $3::int) returning id`,
    [queue, tenantId, count],
  )
  return rows.map(({ id }) => id)
}

test('lists all dead letters once over pages, also those of one millisecond', async () => {
  const ids = await add(7)
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const page = await letters().list({ limit: 3, ...(cursor === undefined ? {} : { cursor }) })
    seen.push(...page.data.map(({ id }) => id))
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined)
  expect(seen).toHaveLength(7)
  expect(seen.toSorted()).toEqual(ids.toSorted())
})

test('filters by queue and tenant', async () => {
  await add(2)
  const [ofAcme] = await add(1, 'tenantry.InstallTenant', 'acme')
  const idsOf = async (filter: object) => (await letters().list(filter)).data.map(({ id }) => id)
  expect(await idsOf({ tenantId: 'acme' })).toEqual([ofAcme])
  expect(await idsOf({ queue: 'tenantry.InstallTenant' })).toEqual([ofAcme])
  expect(await idsOf({ queue: 'tenantry.Other' })).toEqual([])
})

test('sends a job once for any number of concurrent retries', async () => {
  const [id = ''] = await add(1)
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => letters().retry(id)))
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'E_DEAD_LETTER_NOT_FOUND' })
  }
  const { rows } = await made.tenancy.kernel.database.sql('select name, state from multitenancy_jobs.job')
  expect(rows).toEqual([{ name: 'tenantry.PurgeTenants', state: 'created' }])
})

test('keeps a dead letter whose job has no handler', async () => {
  const [id = ''] = await add(1, 'tenantry.OfAnotherRelease')
  await expect(letters().retry(id)).rejects.toMatchObject({ code: 'E_DEAD_LETTER_ORPHANED' })
  expect(await letters().get(id)).toMatchObject({ id, queue: 'tenantry.OfAnotherRelease' })
  await letters().delete(id)
  await expect(letters().get(id)).rejects.toMatchObject({ code: 'E_DEAD_LETTER_NOT_FOUND' })
})

test.each(['newest', '', '00000000-0000-7000-8000-000000000000'])('the id "%s" is not found', async (id) => {
  for (const call of ['get', 'retry', 'delete'] as const) {
    await expect(letters()[call](id)).rejects.toMatchObject({ code: 'E_DEAD_LETTER_NOT_FOUND' })
  }
})
