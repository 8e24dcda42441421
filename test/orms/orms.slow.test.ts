/**
 * Real libraries inside a tenant's scope, on each driver. `PG*` names the owner, so that a query outside the scope is
 * seen by its role.
 */
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import {
  databasePg,
  prismaAdapter,
  problemOf,
  recordChange,
  rowscopePg,
  schemaPg,
  type Tenant,
} from '../../src/index.ts'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/index.ts'
import { PrismaClient } from './generated/client.ts'
import { type Library, libraries, ofMikro, openMikro } from './libraries.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, body text,
    primary key (tenant_id, id))`,
}
const OWNER = ['PGHOST', 'PGPORT', 'PGUSER', 'PGPASSWORD', 'PGDATABASE'] as const
const ROLE = `select current_user::text || ' ' || (current_user = session_user)::text as value`

describe.each([
  ['schema-pg', schemaPg, rowscopePg],
  ['rowscope-pg', rowscopePg, databasePg],
  ['database-pg', databasePg, schemaPg],
])('%s', (_, driver, other) => {
  let world: TestTenancy<[]>
  const handles = new Map<string, Tenant>()

  beforeAll(async () => {
    world = await testTenancy(inject('postgresUrl'), { migrations: [NOTES], isolation: [driver(), other()] })
    for (const id of ['acme', 'globex']) {
      await installed(world.tenancy, { id, name: id })
      handles.set(id, await world.tenancy.tenant(id))
    }
    const { hostname, port, username, password, pathname } = new URL(world.url)
    for (const [n, value] of [hostname, port, username, password, pathname.slice(1)].entries())
      process.env[`${OWNER[n]}`] = value
    await world.tenancy.kernel.database.sql(
      `create table if not exists public.notes (id int, body text); insert into public.notes values (0, 'of the owner')`,
    )
  })
  afterAll(async () => {
    for (const name of OWNER) delete process.env[name]
    await world.end()
  })

  describe.each(Object.keys(libraries))('%s', (name) => {
    let library: Library
    let role: unknown
    beforeAll(async () => {
      library = (await world.tenancy.run('acme', async () => await libraries[name]?.(world.tenancy))) as Library
    })
    afterAll(() => library?.close())
    beforeEach(async () => {
      for (const [id, { pool }] of handles) {
        await pool.query('delete from notes')
        await pool.query('insert into notes (id, body) values (1, $1)', [`of ${id}`])
        role = (await pool.query(ROLE)).rows[0].value
      }
    })
    const within = <T>(id: string, work: (session: Awaited<ReturnType<Library['of']>>) => Promise<T>): Promise<T> =>
      world.tenancy.run(id, async (tenant) => await work(await library.of(tenant)))

    test('reads and writes as the scope role', async () => {
      await within('acme', async (session) => {
        await session.insert(2, 'second')
        expect(await session.bodies()).toEqual(['of acme', 'second'])
        expect(await session.value(ROLE)).toBe(role)
        expect(role).toMatch(/ false$/)
      })
      expect(await within('globex', (session) => session.bodies())).toEqual(['of globex'])
    })

    test('commits and rolls back with the requested isolation level', async () => {
      await within('acme', async (session) => {
        await session.transaction(async (notes) => {
          await notes.insert(2, 'kept')
          expect(await notes.value(`select current_setting('transaction_isolation') as value`)).toBe('serializable')
          expect(await notes.value(ROLE)).toBe(role)
        })
        const failing = session.transaction(async (notes) => {
          await notes.insert(3, 'lost')
          throw new Error('the host changed its mind')
        })
        await expect(failing).rejects.toThrow('changed its mind')
        await expect(session.transaction((notes) => notes.insert(1, 'twice').then(() => undefined))).rejects.toThrow()
        expect(await session.bodies()).toEqual(['of acme', 'kept'])
      })
    })

    test('exposes the SQLSTATE, with and without a transaction', async () => {
      const codeOf = library.codeOf ?? (({ code }) => code)
      await within('acme', async (session) => {
        for (const attempt of [
          () => session.insert(1, 'twice'),
          () => session.transaction((notes) => notes.insert(1, 'twice').then(() => undefined)),
        ]) {
          const error = await attempt().catch((thrown) => thrown)
          expect(error).toBeInstanceOf(Error)
          expect(codeOf(error)).toBe('23505')
        }
        expect(await session.bodies()).toEqual(['of acme'])
      })
    })

    test('is rejected while the tenant is suspended, and continues afterwards', async () => {
      await within('acme', async (session) => {
        await session.bodies()
        await world.tenancy.tenants.suspend('acme')
        for (const attempt of [
          () => session.bodies(),
          () => session.transaction((notes) => notes.insert(2, 'late').then(() => undefined)),
        ]) {
          const problem = problemOf(await attempt().catch((thrown) => thrown))
          expect(problem?.body).toMatchObject({ code: 'E_TENANT_SUSPENDED', detail: 'The tenant is suspended.' })
        }
        await world.tenancy.tenants.activate('acme')
        expect(await session.bodies()).toEqual(['of acme'])
      })
    })

    test('keeps 40 interleaved transactions of two tenants apart', async () => {
      const ids = Array.from({ length: 80 }, (_, n) => (n % 2 ? 'acme' : 'globex'))
      const found = await Promise.all(
        ids.map((id, n) =>
          within(id, async (session) => {
            if (n % 4 > 1) return session.bodies()
            let inside: unknown[] = []
            await session.transaction(async (notes) => {
              inside = await notes.bodies()
            })
            return inside
          }),
        ),
      )
      expect(found).toEqual(ids.map((id) => [`of ${id}`]))
    })
  })

  test('every library that was opened before a move reads and writes the new storage', async () => {
    const { tenancy } = world
    await installed(tenancy, { id: 'moved', name: 'moved' })
    await (await tenancy.tenant('moved')).pool.query(`insert into notes (id, body) values (0, 'before')`)
    const opened = await tenancy.run('moved', (tenant) =>
      Promise.all(
        Object.entries(libraries).map(async ([name, open]) => {
          const library = await open(tenancy)
          const session = await library.of(tenant)
          expect(await session.bodies(), name).toEqual(['before'])
          return { name, library, session }
        }),
      ),
    )

    const { transfer } = await tenancy.tenants.transfers.move('moved', { isolation: other().name })
    await eventually(async () => {
      expect(await tenancy.tenants.transfers.get('moved', transfer.id)).toMatchObject({ state: 'completed' })
    }, 60_000)

    expect(await tenancy.tenants.get('moved')).toMatchObject({ status: 'active', isolation: other().name })
    const { pool } = await tenancy.tenant('moved')
    const role = (await pool.query(ROLE)).rows[0].value
    for (const { name, library, session } of opened) {
      await tenancy.run('moved', async () => {
        expect(await session.bodies(), name).toEqual(['before'])
        await session.transaction(async (notes) => {
          await notes.insert(1, name)
          expect(await notes.value(ROLE), name).toBe(role)
        })
      })
      expect((await pool.query('delete from notes where id = 1 returning body')).rows).toEqual([{ body: name }])
      await library.close()
    }
  })

  test.each(['TypeORM', 'MikroORM'])('%s returns no rows of another tenant from its result cache', async (name) => {
    const { run } = world.tenancy
    const library = (await run('acme', async () => await libraries[name]?.(world.tenancy))) as Library
    for (const round of ['first', 'second']) {
      for (const [id, { pool }] of handles) {
        await pool.query('delete from notes')
        await pool.query('insert into notes (id, body) values (1, $1)', [`${round} of ${id}`])
      }
      for (const id of handles.keys()) {
        const bodies = await run(id, async (tenant) => await (await library.of(tenant)).cachedBodies?.())
        expect(bodies, id).toEqual([`${round} of ${id}`])
      }
    }
    await library.close()
  })

  test('MikroORM with one instance for each tenant keeps their result caches apart', async () => {
    const orms = world.tenancy.perTenant((tenant) => openMikro(tenant), { dispose: (orm) => orm.close() })
    const read = (id: string) => orms.of(id, async (orm) => await ofMikro(orm).cachedBodies?.())
    for (const round of ['first', 'second']) {
      for (const [id, { pool }] of handles) {
        await pool.query('delete from notes')
        await pool.query('insert into notes (id, body) values (1, $1)', [`${round} of ${id}`])
      }
      for (const id of handles.keys()) expect(await read(id), round).toEqual([`first of ${id}`])
    }
  })

  test('libraries with one instance for all tenants reject calls without a tenant', async () => {
    for (const name of ['raw pg, tenancy.pg', 'another copy of Kysely', 'TypeORM', 'Sequelize', 'Knex', 'MikroORM']) {
      const library = (await world.tenancy.run('acme', async () => await libraries[name]?.(world.tenancy))) as Library
      const session = await library.of(handles.get('acme') as Tenant)
      await expect(session.bodies(), name).rejects.toThrow('The context has no tenant')
      await library.close()
    }
  })

  test('Prisma merges findUnique calls of one tick for each tenant separately', async () => {
    const clients = [...handles].map(([id, tenant]) => ({
      id,
      prisma: new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) }),
    }))
    for (const [id, { pool }] of handles) {
      await pool.query('delete from notes')
      await pool.query('insert into notes (id, body) values (1, $1), (2, $1)', [`of ${id}`])
    }
    const asked = Array.from({ length: 8 }, (_, n) => clients[n % 2] as (typeof clients)[0])
    const found = await Promise.all(
      asked.map(({ id, prisma }, n) =>
        world.tenancy.run(id, () => prisma.notes.findUnique({ where: { id: 1 + (n % 4 > 1 ? 1 : 0) } })),
      ),
    )
    expect(found.map((row) => row?.body)).toEqual(asked.map(({ id }) => `of ${id}`))
    await Promise.all(clients.map(({ prisma }) => prisma.$disconnect()))
  })

  test('Prisma clients above max are closed, except those in use', async () => {
    for (const [id, { pool }] of handles) {
      await pool.query('delete from notes')
      await pool.query('insert into notes (id, body) values (1, $1)', [`of ${id}`])
    }
    let [built, disposed] = [0, 0]
    const clients = world.tenancy.perTenant(
      (tenant) => {
        built++
        return new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) })
      },
      {
        max: 1,
        dispose: async (prisma) => {
          await prisma.$disconnect()
          disposed++
        },
      },
    )
    const ids = Array.from({ length: 20 }, (_, n) => (n % 2 ? 'acme' : 'globex'))
    const found = await Promise.all(
      ids.map((id, n) =>
        clients.of(id, (prisma) =>
          prisma.$transaction(async (tx) => {
            await tx.notes.create({ data: { id: 2 + n, body: 'more' } })
            return (await tx.notes.findUnique({ where: { id: 1 } }))?.body
          }),
        ),
      ),
    )
    expect(found).toEqual(ids.map((id) => `of ${id}`))
    await eventually(() => expect(disposed).toBe(built - 1))
    expect(disposed).toBeGreaterThan(0)
  })

  test('an error of a kept Prisma client has the problem of Tenantry', async () => {
    const prisma = new PrismaClient({ adapter: prismaAdapter(PrismaPg, handles.get('acme') as Tenant) })
    await prisma.notes.findMany()
    await world.tenancy.tenants.suspend('acme')
    const insert = { data: { id: 9, body: 'late' } }
    for (const attempt of [
      () => prisma.notes.findMany(),
      () => prisma.notes.create(insert),
      () => prisma.$executeRawUnsafe('delete from notes'),
      () => prisma.$transaction([prisma.notes.findMany()]),
      () => prisma.$transaction((tx) => tx.notes.create(insert)),
    ]) {
      const problem = problemOf(await attempt().catch((thrown: unknown) => thrown))
      expect(problem?.body).toMatchObject({ code: 'E_TENANT_SUSPENDED', detail: 'The tenant is suspended.' })
    }
    await world.tenancy.tenants.activate('acme')
    await prisma.$disconnect()
  })

  test('Prisma without prismaAdapter stays in the scope or fails, and rejects handles without a tenant', async () => {
    const acme = handles.get('acme') as Tenant
    for (const [adapter, reason] of [
      [new PrismaPg(acme.pool as never), /permission denied|does not exist/],
      [new PrismaPg(new world.tenancy.pg.Pool() as never), /reach|not found|ENOTFOUND/i],
      [prismaAdapter(PrismaPg, { db: acme.db, pool: new world.tenancy.pg.Pool() }), /handle of one tenant/],
      [prismaAdapter(PrismaPg, { db: acme.db, pool: new pg.Pool() as never }), /handle of one tenant/],
    ] as const) {
      const prisma = new PrismaClient({ adapter })
      await world.tenancy.run('acme', () => expect(prisma.notes.findMany()).rejects.toThrow(reason))
      await prisma.$disconnect()
    }
  })
})

describe('transactions of libraries', () => {
  let world: TestTenancy<[ReturnType<typeof auditLogs>]>
  beforeAll(async () => {
    world = await testTenancy(inject('postgresUrl'), { migrations: [NOTES], satellites: [auditLogs()] })
    await installed(world.tenancy, { id: 'acme', name: 'acme' })
  })
  afterAll(() => world.end())

  /** Targets of the recorded changes of a library. */
  const targetsOf = async (name: string) =>
    (await world.tenancy.auditLogs.list('acme', { action: name })).data.map(({ target }) => target).sort()

  test.each(Object.keys(libraries))(
    '%s: only calls through tenant.statements roll back with the rows',
    async (name) => {
      const { tenancy } = world
      const action = name.toLowerCase().replaceAll(/\W+/g, '-')
      const record = (target: string) => recordChange(tenancy.kernel.events, { action, tenantId: 'acme', target })
      await tenancy.run('acme', async (tenant) => {
        const library = (await libraries[name]?.(tenancy)) as Library
        const session = await library.of(tenant)
        const write = (target: string, end: () => void) =>
          session.transaction(async (notes) => {
            await record(`${target}:alone`)
            for (const statement of await tenant.statements(() => record(`${target}:joined`)))
              await notes.run(statement)
            end()
          })
        await write('committed', () => undefined)
        const failure = () => {
          throw new Error('rolled back')
        }
        await expect(write('failed', failure)).rejects.toThrow('rolled back')
        await eventually(async () => {
          expect(await targetsOf(action)).toEqual(['committed:alone', 'committed:joined', 'failed:alone'])
        })
        await library.close()
      })
    },
  )
})

test('TypeORM is initialized before the first tenant exists, and then serves tenants', async () => {
  const { tenancy, end } = await testTenancy(inject('postgresUrl'), { migrations: [NOTES] })
  const library = (await libraries.TypeORM?.(tenancy)) as Library
  for (const id of ['acme', 'globex']) {
    await installed(tenancy, { id, name: id })
    await tenancy.run(id, async (tenant) => (await library.of(tenant)).insert(1, `of ${id}`))
  }
  for (const id of ['acme', 'globex']) {
    expect(await tenancy.run(id, async (tenant) => (await library.of(tenant)).bodies())).toEqual([`of ${id}`])
  }
  await library.close()
  await end()
})

test('prismaAdapter qualifies table names with the schema', async () => {
  const world = await testTenancy(inject('postgresUrl'), {
    migrations: [NOTES],
    isolation: [schemaPg({ names: 'qualified' })],
  })
  const clients = world.tenancy.perTenant((tenant) => new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) }), {
    dispose: (prisma) => prisma.$disconnect(),
  })
  for (const id of ['acme', 'globex']) {
    await installed(world.tenancy, { id, name: id })
    await clients.of(id, (prisma) => prisma.notes.create({ data: { id: 1, body: `of ${id}` } }))
  }
  const bodies = await clients.of('acme', (prisma) =>
    prisma.$transaction(async (tx) => {
      await tx.$executeRawUnsafe('set local search_path = pg_catalog')
      return [...(await tx.notes.findMany()), ...(await tx.notes.findMany({ where: { body: 'of globex' } }))]
    }),
  )
  expect(bodies).toEqual([{ id: 1, body: 'of acme' }])
  await world.end()
})
