/** Loops of a host over its active tenants. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { currentContext } from '../../kernel/base/context.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenant } from '../handles/handle.ts'
import { TenantInMaintenance, TenantMismatch } from '../tenant/errors.ts'

const IDS = ['t1', 't2', 't3', 't4', 't5', 't6']
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

let world: TestTenancy<[]>
beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'))
  for (const id of [...IDS, 'asleep', 'gone']) await installed(world.tenancy, { id, name: id })
  await world.tenancy.tenants.suspend('asleep')
  await world.tenancy.tenants.delete('gone')
})
afterAll(() => world.end())

describe('forEachTenant', () => {
  test('runs the work for each active tenant, in its context', async () => {
    const { tenancy } = world
    const seen: string[] = []
    const result = await tenancy.forEachTenant({ status: 'active', concurrency: 3 }, async (tenant) => {
      await tenant.pool.query('select 1')
      seen.push(`${tenant.id} ${(await tenancy.current()).id}`)
    })
    expect(result).toEqual({ done: 6, failed: [], skipped: 0 })
    expect(seen.toSorted()).toEqual(IDS.map((id) => `${id} ${id}`))
    expect(currentContext().tenantId).toBeUndefined()
  })

  test('runs at most as many tenants concurrently as allowed', async () => {
    let running = 0
    let most = 0
    await world.tenancy.forEachTenant({ concurrency: 2 }, async () => {
      most = Math.max(most, ++running)
      for (let turn = 0; turn < 20; turn++) await nextTurn()
      running--
    })
    expect([most, running]).toEqual([2, 0])
  })

  test('reads all pages, and only tenants that match', async () => {
    const { tenancy } = world
    const { rows } = await tenancy.kernel.database.sql(
      `select string_agg(quote_ident(column_name), ', ') as columns from information_schema.columns
       where table_name = 'tenants' and is_generated = 'NEVER' and column_name not in ('id', 'locator')`,
    )
    await tenancy.kernel.database.sql(
      `insert into multitenancy.tenants (id, locator, ${rows[0].columns})
       select 'many-' || n, locator || '-' || n, ${rows[0].columns}
       from multitenancy.tenants, generate_series(1, 450) n where id = 't1'`,
    )
    const seen = new Set<string>()
    const result = await tenancy.forEachTenant({ q: 'many-', concurrency: 8 }, ({ id }) => void seen.add(id))
    expect([result.done, seen.size]).toEqual([450, 450])
    await tenancy.kernel.database.sql(`delete from multitenancy.tenants where id like 'many-%'`)
  })

  test('skips a tenant that is suspended or deleted before its turn', async () => {
    const { tenancy } = world
    const seen: string[] = []
    const leave = async ({ id }: Tenant) => {
      if (seen.push(id) > 1) return
      const [first, second] = IDS.filter((other) => other !== id)
      await tenancy.withoutTenant(async () => {
        await tenancy.tenants.suspend(`${first}`)
        await tenancy.tenants.delete(`${second}`)
      })
    }
    expect(await tenancy.forEachTenant({ concurrency: 1 }, leave)).toEqual({ done: 4, failed: [], skipped: 2 })
    expect(seen).toHaveLength(4)
    for (const id of IDS) {
      const { status } = await tenancy.tenants.get(id)
      if (status === 'suspended') await tenancy.tenants.activate(id)
      if (status === 'deleted') await tenancy.tenants.restore(id)
    }
  })

  test('with onError: continue, returns the error of each failed tenant', async () => {
    const { tenancy } = world
    await tenancy.tenants.enterMaintenance('t2')
    const result = await tenancy.forEachTenant({ onError: 'continue' }, ({ id }) => {
      if (id === 't5') throw new Error('no mail server')
    })
    await tenancy.tenants.exitMaintenance('t2')
    expect(result.done).toBe(4)
    expect(Object.fromEntries(result.failed.map(({ id, error }) => [id, error]))).toEqual({
      t2: expect.any(TenantInMaintenance),
      t5: new Error('no mail server'),
    })
  })

  test('by default, a failure starts no further tenant and is thrown after the running ones have ended', async () => {
    const seen: string[] = []
    let ended = 0
    const failing = world.tenancy.forEachTenant({ concurrency: 2 }, async ({ id }) => {
      const isFirst = seen.push(id) === 1
      await nextTurn()
      if (isFirst) throw new Error('stop here')
      for (let turn = 0; turn < 20; turn++) await nextTurn()
      ended++
    })
    await expect(failing).rejects.toThrow('stop here')
    expect([seen.length, ended]).toEqual([2, 1])
  })

  test('starts no further tenant after its signal aborts, and throws the reason', async () => {
    const stop = new AbortController()
    const seen: string[] = []
    const loop = world.tenancy.forEachTenant({ concurrency: 1, signal: stop.signal }, ({ id }) => {
      seen.push(id)
      stop.abort(new Error('enough'))
    })
    await expect(loop).rejects.toThrow('enough')
    expect(seen).toHaveLength(1)
  })

  test('is rejected in the context of a tenant, and with invalid and unknown options', async () => {
    const { tenancy } = world
    const loop = () => tenancy.forEachTenant({}, () => undefined)
    await expect(tenancy.run('t1', loop)).rejects.toThrow(TenantMismatch)
    const invalid = { concurrency: 0, status: 'suspended', onError: 'skip', q: 1, concurency: 8 }
    for (const [name, value] of Object.entries(invalid)) {
      const looped = tenancy.forEachTenant({ [name]: value } as object, () => expect.fail('it ran'))
      await expect(looped).rejects.toMatchObject({ code: 'E_INVALID_REQUEST', message: expect.stringContaining(name) })
    }
    const withoutOptions = tenancy.forEachTenant as unknown as (work: () => void) => Promise<unknown>
    await expect(withoutOptions(() => expect.fail('it ran'))).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      message: expect.stringContaining('forEachTenant(options, work)'),
    })
  })
})
