/**
 * Adoptions and releases of shared tables in processes that are killed with SIGKILL, and one with 10,000 tenants.
 *
 * A lock of the test stops the process: a lock of a table before the commit of the server, a lock of a table of the
 * backoffice before or after it.
 */
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { openRowTenancy, REQUEST, type RowTenancy } from './row-adoptions.fixture.ts'

let here: RowTenancy
const tenants = () => here.opened.tenancy.tenants
const tables = () => tenants().adoptions.tables
const expire = () => here.sql(`update multitenancy.row_adoptions set lease_until = now() - interval '1 second'`)

beforeAll(async () => {
  here = await openRowTenancy()
})
afterAll(() => here.end())

async function release(): Promise<void> {
  await tables().release({})
  for (const { id } of await here.sql(`select id from multitenancy.tenants where purged_at is null`)) {
    await tenants().installation.purge(id)
  }
  await expire()
  await tenants().adoptions.recover()
}

/** Waits until a process waits for the lock. */
async function waiting(lock: string): Promise<void> {
  const [, , table] = lock.split(' ')
  await eventually(async () => {
    expect(await here.sql(`select from pg_locks where relation = '${table}'::regclass and not granted`)).toHaveLength(1)
  })
}

/** Runs `work` in a process until it waits for the locks, one after the other, and kills the process. */
async function killed(locks: readonly string[], work: (child: Child) => Promise<unknown>): Promise<void> {
  const child = await startChild(new URL('./row-adoption-process.fixture.ts', import.meta.url), {
    url: here.opened.url,
  })
  const clients: pg.Client[] = []
  const hold = async (lock: string) => {
    const client = new pg.Client({ connectionString: here.opened.url })
    await client.connect()
    clients.push(client)
    await client.query(`begin; ${lock}`)
  }
  const [first = '', ...others] = locks
  await hold(first)
  const working = work(child)
  working.catch(() => undefined)
  await waiting(first)
  for (const lock of others) {
    await hold(lock)
    await clients.shift()?.end()
    await waiting(lock)
  }
  await child.kill('SIGKILL')
  await expect(working).rejects.toThrow()
  for (const client of clients) await client.end()
}

const OF_SERVER = 'lock table app.notes in access share mode'
const OF_RECORD = 'lock table tenantry.adoptions in share mode'
const OF_ACTIVATION = 'lock table multitenancy.row_adoptions in share mode'
const OF_RESERVATION = 'lock table multitenancy.row_adoption_tenants in share mode'

describe('a killed process', () => {
  beforeEach(() => here.create())

  test.each([
    ['during the reservation', [OF_RESERVATION]],
    ['before the statements of the server', [OF_SERVER]],
    ['before the record of the server', [OF_RECORD]],
  ])('%s has adopted nothing', async (_, locks) => {
    const before = await here.table()
    const digest = await here.digest()
    await killed(locks, (child) => child.request({ adopt: digest }))
    await eventually(async () => {
      await expire()
      await tenants().adoptions.recover()
      expect(await here.sql('select from multitenancy.row_adoptions')).toEqual([])
    })
    expect(await here.sql(`select from multitenancy.tenants where locator not like 'released %'`)).toEqual([])
    expect(await here.table()).toEqual(before)
    expect(await tables().adopt({ ...REQUEST, digest })).toMatchObject({ tenants: 3 })
    await release()
  })

  test('after the commit of the server has adopted all tenants', async () => {
    const digest = await here.digest()
    await killed([OF_SERVER, OF_ACTIVATION], (child) => child.request({ adopt: digest }))
    await expire()
    await tenants().adoptions.recover()
    for (const id of ['1', '2', '3']) {
      expect(await tenants().get(id)).toMatchObject({ status: 'active', name: `Customer ${id}` })
      expect(await here.bodies(id)).toEqual([{ body: `of ${id}` }])
    }
    await release()
  })

  test('in a release leaves it to the job RecoverAdoptions, which changes no row', async () => {
    const before = await here.table()
    await tables().adopt({ ...REQUEST, digest: await here.digest() })
    await killed([OF_SERVER], (child) => child.request('release'))
    await eventually(async () => {
      await expire()
      await tenants().adoptions.recover()
      expect(await here.table()).toEqual(before)
    })
    expect(await here.sql('select body from app.notes')).toHaveLength(3)
    await release()
  })
})

test('an adoption creates 10,000 tenants, each with its rows', { timeout: 300_000 }, async () => {
  const customers = 10_000
  await here.create(customers)
  const before = await here.table()
  const { digest, tenants: planned } = await tables().plan(REQUEST)
  expect(planned).toBe(customers)
  expect(await tables().adopt({ ...REQUEST, digest })).toMatchObject({ tenants: customers })
  expect(
    await here.sql(
      `select count(*)::int as count from multitenancy.tenants where status = 'active' and name = 'Customer ' || id`,
    ),
  ).toEqual([{ count: customers }])
  for (const id of ['1', '5000', '10000']) expect(await here.bodies(id)).toEqual([{ body: `of ${id}` }])
  expect(await tables().release({})).toMatchObject({ tenants: customers })
  expect(await here.table()).toEqual(before)
})
