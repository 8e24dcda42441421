/** Objects of a tenant and of the tenancy as a configuration of node-postgres, while `PG*` variables name the owner. */
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { createGuard } from '../guard/guard.ts'
import { REFUSED_SETTINGS } from './rejected-settings.ts'

let environment: TestTenancy<[]>
const objects = new Map<string, object>()

beforeAll(async () => {
  environment = await testTenancy(inject('postgresUrl'))
  const { tenancy } = environment
  await installed(tenancy, { id: 'acme', name: 'Acme' })
  const tenant = await tenancy.tenant('acme')
  const guard = createGuard(tenancy.tenants, { resolve: () => ({ id: 'acme' }), authorize: 'anyone' })
  const request = { raw: {}, method: 'GET', path: '/', host: undefined, header: () => undefined }
  const { tenant: guarded } = await guard.admit(request)
  expect(guarded?.db).toBe(tenant.db)
  const add = (name: string, parts: object) => {
    for (const [part, object] of Object.entries(parts)) objects.set(`${name}: ${part}`, object)
  }
  add('all', { tenant, tenancy })
  await tenant.transaction(async (db) => add('transaction', { db }))
  for (const [name, { db, pool }] of Object.entries({ tenant })) {
    const { options, Client } = pool as pg.Pool & { Client: typeof pg.Client }
    add(name, { db, pool, options, Client, client: await pool.connect() })
  }
  for (const [name, { pg: module, dialect }] of Object.entries({ tenant, tenancy })) {
    const { Client, Pool, defaults } = module
    const [client, pool] = [new Client(), new Pool()]
    const { options } = pool
    add(`${name}.pg`, { dialect, module, Client, Pool, defaults, client, pool, options, ofPool: await pool.connect() })
  }
})
afterAll(() => environment.end())

test('pools and clients created from the members of an object, or from a copy of it, reach no server', async () => {
  const { hostname, port, username, password, pathname } = new URL(environment.url)
  const owner = { HOST: hostname, PORT: port, USER: username, PASSWORD: password, DATABASE: pathname.slice(1) }
  for (const [name, value] of Object.entries(owner)) vi.stubEnv(`PG${name}`, value)
  const connected = async (settings: pg.PoolConfig) => {
    const pool = new pg.Pool(settings)
    await pool.query('select').finally(() => pool.end())
  }
  await connected({})

  for (const [name, object] of objects) {
    const { host, port, user, database } = object as pg.ClientConfig
    expect({ host, port, user, database }, name).toEqual(REFUSED_SETTINGS)
    const copy: pg.PoolConfig = { ...object, Client: undefined }
    for (const made of [new pg.Client(object), new pg.Client(copy), new pg.Pool(copy).options])
      expect(made, name).toMatchObject(REFUSED_SETTINGS)
  }
  await expect(connected({ ...REFUSED_SETTINGS })).rejects.toThrow(/ENOTFOUND|EAI_AGAIN/)
})

test('a pool of node-postgres rejects the module of a tenant and its Client', async () => {
  const { tenancy } = environment
  const tenant = await tenancy.tenant('acme')
  for (const { pg: module } of [tenancy, tenant]) {
    for (const options of [module, { Client: module.Client }]) {
      const pool = new pg.Pool(options as pg.PoolConfig)
      await expect(async () => await pool.query('select 1')).rejects.toThrow(/tenancy\.perTenant.*docs\/embedding\.md/)
    }
    const client = new module.Client({ types: pg.types })
    const ofPool = await new module.Pool({ max: 1 }).connect()
    await tenancy.run('acme', async () => {
      for (const one of [client, ofPool]) expect((await one.query('select 1 as n')).rows).toEqual([{ n: 1 }])
    })
  }
})
