import { CompiledQuery, type Kysely } from 'kysely'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { createInstallation, type Installation, locationOf, provisioned } from './roles/installation.fixture.ts'
import { rowscopePg } from './rowscope-pg.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table books (
      tenant_id text not null default tenantry.current_tenant(), id int not null, title text not null, best int,
      primary key (tenant_id, id));
    create table notes (
      tenant_id text not null default tenantry.current_tenant(), id int not null, book int not null, body text,
      primary key (tenant_id, id), foreign key (tenant_id, book) references books (tenant_id, id));
    alter table books add foreign key (tenant_id, best) references notes (tenant_id, id)`,
}

let installation: Installation
let driver: IsolationDriver
let a: StorageHandle
let b: StorageHandle

beforeEach(async () => {
  installation = await createInstallation(inject('postgresUrl'), {
    driver: () => rowscopePg(),
    migrations: [NOTES],
    connections: { max: 2, perTenant: 2 },
  })
  driver = await installation.open(await installation.prepare())
  a = await provisioned(driver, 'a')
  b = await provisioned(driver, 'b')
  await write(a, 'of a')
  await write(b, 'of b')
})
afterEach(() => installation.end())

const raw = async (db: Kysely<any>, text: string) => (await db.executeQuery<any>(CompiledQuery.raw(text))).rows
const all = async (text: string) => (await installation.database.sql(text)).rows
const titles = async ({ db }: StorageHandle) =>
  (await db.selectFrom('books').select('title').orderBy('id').execute()).map(({ title }) => title)

/** Writes a book and a note that refer to each other. */
async function write({ transaction }: StorageHandle, title: string): Promise<void> {
  await transaction(async (db) => {
    await db.insertInto('books').values({ id: 1, title }).execute()
    await db.insertInto('notes').values({ id: 1, book: 1, body: title }).execute()
    await db.updateTable('books').set({ best: 1 }).execute()
  })
}

test('two tenants store different rows with the same keys in the same tables', async () => {
  expect([await titles(a), await titles(b)]).toEqual([['of a'], ['of b']])
  expect(await all('select tenant_id, title from tenantry_rows.books order by tenant_id')).toEqual([
    { tenant_id: 'a', title: 'of a' },
    { tenant_id: 'b', title: 'of b' },
  ])
})

test('a cached plan is shared by tenants and contains no value of a tenant', async () => {
  for (let round = 0; round < 12; round++) {
    for (const handle of [a, b]) {
      const { rows } = await handle.pool.query('select title from books where id = $1', [1])
      expect(rows).toEqual([{ title: `of ${handle.id}` }])
    }
  }
})

test('a tenant cannot insert rows for another tenant or move rows to it', async () => {
  for (const text of [
    `insert into books (tenant_id, id, title) values ('b', 7, 'smuggled')`,
    `update books set tenant_id = 'b' where id = 1`,
    `insert into books (id, title) values (1, 'x') on conflict (tenant_id, id) do update set tenant_id = 'b'`,
  ]) {
    await expect(raw(a.db, text)).rejects.toMatchObject({ code: '42501' })
  }
  expect(await titles(b)).toEqual(['of b'])
})

test('a second tenant on a placement needs no migrations', async () => {
  expect(await driver.provision(locationOf(driver, 'c'))).toEqual(['0001_notes'])
  expect(await driver.migrate(locationOf(driver, 'c'))).toEqual([])
  expect(await driver.applied(locationOf(driver, 'a'))).toEqual(['0001_notes'])
})

test('ten concurrent calls create the tables once', async () => {
  const fresh = await createInstallation(inject('postgresUrl'), { driver: () => rowscopePg(), migrations: [NOTES] })
  try {
    const placement = await fresh.prepare()
    const drivers = await Promise.all(Array.from({ length: 5 }, () => fresh.open(placement)))
    const made = drivers.flatMap((one) => ['a', 'b'].map((id) => one.provision(locationOf(one, id))))
    expect(await Promise.all(made)).toEqual(Array(10).fill(['0001_notes']))
  } finally {
    await fresh.end()
  }
})

describe('a migration', () => {
  test('a migration changes the rows of all tenants and protects the tables that it creates', async () => {
    const later = await installation.open(await installation.prepare(), {
      driver: () => rowscopePg(),
      migrations: [
        NOTES,
        {
          name: '0002_tags',
          checksum: '',
          up: `update books set title = upper(title);
            create table tags (tenant_id text not null default tenantry.current_tenant(), tag text, primary key (tenant_id, tag))`,
          down: 'drop table tags; update books set title = lower(title)',
        },
      ],
    })
    expect(await later.migrate(locationOf(later, 'a'))).toEqual(['0002_tags'])
    expect([await titles(a), await titles(b)]).toEqual([['OF A'], ['OF B']])
    await raw(a.db, `insert into tags (tag) values ('red')`)
    expect(await raw(b.db, 'select * from tags')).toEqual([])
    expect(await later.rollback(locationOf(later, 'b'), 1)).toEqual(['0002_tags'])
    expect([await titles(a), await titles(b)]).toEqual([['of a'], ['of b']])
  })

  test('rejects a migration that creates a table without possible protection, with the name of the table', async () => {
    const wrong = await installation.open(await installation.prepare(), {
      driver: () => rowscopePg(),
      migrations: [NOTES, { name: '0002_open', checksum: '', up: 'create table open_to_all (id int primary key)' }],
    })
    await expect(wrong.migrate(locationOf(wrong, 'a'))).rejects.toThrow('open_to_all')
    expect(await all(`select from pg_tables where tablename = 'open_to_all'`)).toEqual([])
  })
})

describe('a fence', () => {
  test('a fence rejects all statements of its tenant and none of other tenants', async () => {
    await driver.fence(locationOf(driver, 'a'))
    expect(await driver.isFenced(locationOf(driver, 'a'))).toBe(true)
    for (const text of [
      'select title from books',
      'delete from notes',
      `insert into books (id, title) values (9, '')`,
    ]) {
      await expect(raw(a.db, text)).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
      await expect(a.transaction((tx) => raw(tx, text))).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    }
    expect(await titles(b)).toEqual(['of b'])
    await driver.unfence(locationOf(driver, 'a'))
    expect(await titles(a)).toEqual(['of a'])
  })
})

test('a drop removes the rows of one tenant despite circular references, and is idempotent', async () => {
  await driver.drop(locationOf(driver, 'a'))
  await driver.drop(locationOf(driver, 'a'))
  expect(await titles(b)).toEqual(['of b'])
  expect(await all('select distinct tenant_id from tenantry_rows.notes')).toEqual([{ tenant_id: 'b' }])
})

test('a drop removes rows that triggers write during the deletion, and changes nothing if triggers never stop', async () => {
  const journal = (table: string) => `
    create table ${table} (tenant_id text not null default tenantry.current_tenant(), note text);
    create function ${table}_write() returns trigger language plpgsql as $$
      begin insert into ${table} (note) values ('deleted'); return old; end $$`
  const pairs = `create table pairs (tenant_id text not null default tenantry.current_tenant(), id int)`
  const ending = `${pairs}; ${journal('journal')};
    create trigger journal after delete on pairs for each row execute function journal_write()`
  const endless = `create trigger endless after delete on journal for each row execute function journal_write()`
  const migrations = [ending, endless].map((up, n) => ({ name: `000${n + 2}`, checksum: '', up }))
  const location = locationOf(driver, 'kept')
  const [first, both] = [1, 2].map((count) => [NOTES, ...migrations.slice(0, count)])
  const placement = await installation.prepare()
  const once = await installation.open(placement, { driver: () => rowscopePg(), migrations: first })
  const kept = await provisioned(once, 'kept')
  await kept.pool.query('insert into pairs (id) values (1), (2)')
  await once.drop(location)
  expect(await all(`select tenant_id from tenantry_rows.journal where tenant_id = 'kept'`)).toEqual([])
  const forever = await installation.open(placement, { driver: () => rowscopePg(), migrations: both })
  await forever.migrate(location)
  await forever.provision(location)
  await kept.pool.query('insert into pairs (id) values (3)')
  await expect(forever.drop(location)).rejects.toThrow('nothing was removed')
  expect(await all(`select id from tenantry_rows.pairs where tenant_id = 'kept'`)).toEqual([{ id: 3 }])
})

describe.each(['a superuser', 'a non-superuser owner'])('rows deleted by %s', (who) => {
  const up = `
    create table tallies (tenant_id text not null default tenantry.current_tenant(), n int);
    create table z_notes (tenant_id text not null default tenantry.current_tenant(), id int);
    create function count_down() returns trigger language plpgsql as $$
      begin update tallies set n = n - 1; return old; end $$;
    create trigger count_down before delete on z_notes for each row execute function count_down()`

  test('triggers of a tenant read and change only the rows of this tenant', async () => {
    const owner = `owner_${Math.random().toString(36).slice(2, 10)}`
    await all(`create role ${owner} login password 'p' createrole`)
    const as = (url: string) => Object.assign(new URL(url), { username: owner, password: 'p' }).href
    const there = await createInstallation(inject('postgresUrl'), {
      driver: () => rowscopePg(),
      migrations: [{ name: '0001', checksum: '', up }],
      ...(who === 'a superuser' ? {} : { ownerUrl: as }),
    })
    try {
      await all(`grant create on database ${new URL(there.url).pathname.slice(1)} to ${owner}`)
      const driver = await there.open(await there.prepare())
      const [going, staying] = [await provisioned(driver, 'going'), await provisioned(driver, 'staying')]
      for (const { pool } of [going, staying]) {
        await pool.query('insert into tallies values (default, 3)')
        await pool.query('insert into z_notes (id) values (1), (2)')
      }
      await driver.drop(locationOf(driver, 'going'))
      expect((await staying.pool.query('select n from tallies')).rows).toEqual([{ n: 3 }])
      expect((await staying.pool.query('select id from z_notes')).rowCount).toBe(2)
      const { rows } = await there.database.sql(
        'select tenant_id from tenantry_rows.tallies union all select tenant_id from tenantry_rows.z_notes',
      )
      expect(rows.map(({ tenant_id }) => tenant_id)).toEqual(['staying', 'staying', 'staying'])
      await expect(going.pool.query('select n from tallies')).rejects.toSatisfy(driver.mayBeFence)
    } finally {
      await there.end()
      await all(`drop role ${owner}`)
    }
  })
})
