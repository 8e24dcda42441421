/** Objects of Tenantry as configuration of real libraries. `PG*` names the owner. */
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle } from 'drizzle-orm/node-postgres'
import createKnex from 'knex'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import type { Tenant } from '../../src/index.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/index.ts'
import { PrismaClient } from './generated/client.ts'

const ROLE = 'select current_user::text as role'
const REFUSED = /ENOTFOUND|EAI_AGAIN|use-the-handle\.tenantry\.invalid/

let world: TestTenancy<[]>
let acme: Tenant

beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'))
  await installed(world.tenancy, { id: 'acme', name: 'Acme' })
  acme = await world.tenancy.tenant('acme')
})
beforeEach(() => {
  const { hostname, port, username, password, pathname } = new URL(world.url)
  const owner = { HOST: hostname, PORT: port, USER: username, PASSWORD: password, DATABASE: pathname.slice(1) }
  for (const [name, value] of Object.entries(owner)) vi.stubEnv(`PG${name}`, value)
})
afterAll(() => world.end())

const libraries: Record<string, (settings: any) => Promise<unknown>> = {
  async Prisma(settings) {
    const prisma = new PrismaClient({ adapter: new PrismaPg(settings) })
    return prisma.$queryRawUnsafe(ROLE).finally(() => prisma.$disconnect())
  },
  async Drizzle(settings) {
    const db = drizzle({ connection: settings })
    return db.execute(ROLE).finally(() => db.$client.end())
  },
  async Knex(settings) {
    const knex = createKnex({ client: 'pg', connection: settings })
    return knex.raw(ROLE).finally(() => knex.destroy())
  },
}

describe.each(Object.keys(libraries))('%s', (name) => {
  const use = (settings: object) =>
    world.tenancy
      .run('acme', async () => await libraries[name]?.(settings))
      .then(
        (rows) => JSON.stringify(rows),
        (failure) => `${failure.code} ${failure.cause?.code} ${failure.message}`,
      )

  test('no library connects as the owner when it is configured with an object of Tenantry', async () => {
    expect(await use({})).toContain('"role"')
    const { tenancy } = world
    const objects: Record<string, object> = {
      tenant: acme,
      'tenant.dialect': acme.dialect,
      'tenant.pool.connect()': await acme.pool.connect(),
      tenancy,
      'tenancy.dialect': tenancy.dialect,
      'new tenancy.pg.Client()': new tenancy.pg.Client(),
      'new tenancy.pg.Pool()': new tenancy.pg.Pool(),
      // The others call a class, which fails.
      ...(name === 'Prisma' ? { 'tenant.pg.Client': acme.pg.Client, 'tenancy.pg.Pool': tenancy.pg.Pool } : {}),
      // The others create a pool with its Client, which rejects that.
      ...(name === 'Knex' ? { 'tenant.pg': acme.pg, 'tenancy.pg': tenancy.pg } : {}),
    }
    const outcomes = await Promise.all(Object.entries(objects).map(async ([of, object]) => [of, await use(object)]))
    expect(outcomes).toEqual(Object.keys(objects).map((of) => [of, expect.stringMatching(REFUSED)]))
  })
})

test('Prisma rejects the module of a tenancy and its Client, and names the supported way', async () => {
  const { tenancy } = world
  for (const settings of [tenancy.pg, { Client: tenancy.pg.Client }, acme.pg, { Client: acme.pg.Client }]) {
    const prisma = new PrismaClient({ adapter: new PrismaPg(settings as never) })
    await tenancy.run('acme', () => expect(prisma.notes.findMany()).rejects.toThrow(/tenancy\.perTenant/))
    await prisma.$disconnect()
  }
})
