/** Tests the exchange of rows in adopted tables by owners with different rights, and with triggers that cannot be disabled. */
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createOwner } from '../copy/copy-storage.fixture.ts'
import { openRows, type Rows } from './row-adoption.fixture.ts'

const signal = new AbortController().signal

async function bodies(rows: Rows, id: string): Promise<unknown[]> {
  const found = await sql<{ body: string }>`select body from tasks order by body`.execute(rows.handle(id).db)
  return found.rows.map(({ body }) => body)
}

const second = (rows: Rows, id: string) => ({ ...rows.location(id), locator: `${id}~2`, epoch: 2 })

/** Stores the rows as those of a second location, changes them, and enters this location. */
async function replace(rows: Rows, id: string): Promise<void> {
  const { driver } = rows
  await driver.export(rows.location(id), (copy) => driver.import(second(rows, id), copy, { signal }), { signal })
  await sql`insert into tasks (body) values ('later')`.execute(rows.handle(id).db)
  await driver.fence(rows.location(id))
  await driver.enter?.(second(rows, id), { signal })
  await driver.unfence(second(rows, id))
}

const others = (rows: Rows) =>
  rows.sql(`select ctid, xmin, t::text from app.tasks t where org_id <> '${rows.ids[0]}' order by 1`)

describe('an owner that policies bind', () => {
  let owner: Awaited<ReturnType<typeof createOwner>>
  let rows: Rows
  beforeAll(async () => {
    owner = await createOwner(inject('postgresUrl'))
    rows = await openRows('uuid', { ownerUrl: owner.ownerUrl })
  })
  beforeEach(async () => {
    await rows.create()
    await rows.sql(`grant ${rows.role} to ${owner.name};
      do $$ begin execute format('grant create on database %I to ${rows.role}', current_database()); end $$`)
    await rows.adopt()
  })
  afterEach(() => rows.release())
  afterAll(async () => {
    await rows.end()
    await owner.drop()
  })

  test('replaces the rows, if its triggers change none', async () => {
    const [a, b] = rows.ids
    await rows.sql(`update app.tasks set body = 'ready'; alter table app.tasks alter body type text using upper(body)`)
    const before = await others(rows)
    await replace(rows, a)
    expect(await bodies(rows, a)).toEqual(['READY'])
    expect(await others(rows)).toEqual(before)
    await rows.driver.fence(second(rows, a))
    await rows.driver.enter?.({ ...rows.location(a), epoch: 3 }, { signal })
    await rows.driver.unfence({ ...rows.location(a), epoch: 3 })
    expect(await bodies(rows, a)).toEqual(['LATER', 'READY'])
    await rows.driver.drop(second(rows, a))
    await rows.driver.drop(rows.location(a))
    expect(await rows.asApplication(`select body from tasks where org_id = '${a}'`)).toEqual([])
    expect(await bodies(rows, b)).toHaveLength(2)
    expect(await rows.sql(`select from pg_namespace where nspname like 'tenantry_aside%'`)).toEqual([])
  })

  test('leaves the former rows if its triggers change the inserted ones', async () => {
    const [a] = rows.ids
    await rows.sql(`alter table app.tasks disable trigger tasks_shout; update app.tasks set body = 'quiet';
      alter table app.tasks enable trigger tasks_shout`)
    const { driver } = rows
    await expect(replace(rows, a)).rejects.toMatchObject({
      code: 'E_BACKUP_INCOMPATIBLE',
      message: expect.stringContaining('grant set on parameter session_replication_role'),
    })
    await driver.unfence(rows.location(a))
    expect(await bodies(rows, a)).toEqual(['LATER', 'quiet'])
    await driver.drop(second(rows, a))
  })

  test('leaves the former rows if a trigger changes rows that are being deleted', async () => {
    const [a] = rows.ids
    await rows.sql(`create function app.recount() returns trigger language plpgsql as $$
        begin update app.projects set title = 'orphan' where id = old.project_id; return old; end $$;
      create trigger recount before delete on app.tasks for each row execute function app.recount()`)
    await expect(replace(rows, a)).rejects.toMatchObject({
      code: 'E_BACKUP_INCOMPATIBLE',
      message: expect.stringContaining('Triggers change rows of the tenant while these are deleted'),
    })
    await rows.sql('drop function app.recount cascade')
    await rows.driver.unfence(rows.location(a))
    expect(await bodies(rows, a)).toHaveLength(2)
    await rows.driver.drop(second(rows, a))
  })

  test('leaves the former rows if a trigger writes rows during the deletion', async () => {
    const [a] = rows.ids
    await rows.sql(`create function app.journal() returns trigger language plpgsql as $$
        begin insert into app.projects (title) values ('journal'); return old; end $$;
      create trigger journal before delete on app.tasks for each row execute function app.journal()`)
    await rows.sql(`update app.tasks set body = upper(body)`)
    await expect(replace(rows, a)).rejects.toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
    await rows.sql('drop function app.journal cascade')
    await rows.driver.unfence(rows.location(a))
    expect(await bodies(rows, a)).toHaveLength(2)
    expect((await sql`select title from projects`.execute(rows.handle(a).db)).rows).toEqual([{ title: 'of acme' }])
    await rows.driver.drop(second(rows, a))
  })
})

describe.each(['text', 'integer'] as const)('a tenant column of type %s', (type) => {
  let rows: Rows
  beforeAll(async () => {
    rows = await openRows(type)
    await rows.create()
    await rows.adopt()
  })
  afterAll(() => rows.end())

  test('has rows that are replaced', async () => {
    const before = await others(rows)
    await replace(rows, rows.ids[0])
    expect(await bodies(rows, rows.ids[0])).toEqual(['ONE'])
    expect(await others(rows)).toEqual(before)
  })
})

describe('a superuser', () => {
  let rows: Rows
  beforeAll(async () => {
    rows = await openRows('bigint')
  })
  beforeEach(async () => {
    await rows.create()
    await rows.adopt()
  })
  afterEach(() => rows.release())
  afterAll(() => rows.end())

  test('replaces the rows without triggers', async () => {
    const [a] = rows.ids
    const before = await others(rows)
    await replace(rows, a)
    expect(await bodies(rows, a)).toEqual(['ONE'])
    expect(await others(rows)).toEqual(before)
  })

  test('calls no function, and uses no type, of the former application', async () => {
    const [a] = rows.ids
    const functions = ['set_config(text, text, boolean)', 'current_setting(text)', 'num_nulls(integer)']
    for (const one of functions) {
      await rows.sql(`create function app.${one} returns text language plpgsql as $$begin raise 'called'; end$$;
        alter function app.${one} owner to ${rows.role}`)
    }
    await rows.sql('create domain app.int8 as pg_catalog.int8 check (value < 0)')
    await replace(rows, a)
    expect(await bodies(rows, a)).toEqual(['ONE'])
  })

  test.each([
    ['citext', 'Rocket', 'rocket'],
    ['ltree', 'rocket', 'rocket'],
  ])('compares keys of the type %s of an extension before the fence', async (type, copied, taken) => {
    const [a, b] = rows.ids
    await rows.sql(`create schema extensions; create extension ${type} schema extensions;
      grant usage on schema extensions to public;
      alter table app.projects add slug extensions.${type} unique`)
    try {
      await rows.sql(`update app.projects set slug = '${copied}' where org_id = '${a}'`)
      const { driver } = rows
      const importing = driver.export(
        rows.location(a),
        async (copy) => {
          await rows.sql(`update app.projects set slug = null;
            update app.projects set slug = '${taken}' where org_id = '${b}'`)
          await driver.import(second(rows, a), copy, { signal })
        },
        { signal },
      )
      await expect(importing).rejects.toMatchObject({
        code: 'E_BACKUP_INCOMPATIBLE',
        message: expect.stringContaining('the key "projects_slug_key" of the table "projects"'),
      })
    } finally {
      await rows.sql('drop schema extensions cascade')
    }
  })

  test('takes the role of tenants where triggers cannot be disabled, and leaves this role no rights', async () => {
    const [a] = rows.ids
    await rows.sql('alter table app.tasks enable always trigger tasks_shout')
    const before = await others(rows)
    await replace(rows, a)
    expect(await bodies(rows, a)).toEqual(['ONE'])
    expect(await others(rows)).toEqual(before)
    const aside = await rows.sql(
      `select n.nspacl, c.relacl from pg_namespace n join pg_class c on relnamespace = n.oid where nspname like 'tenantry_aside%'`,
    )
    expect(aside).not.toEqual([])
    expect(JSON.stringify(aside)).not.toContain('scope')
  })

  test('with a deferrable key, checks it before the commit', async () => {
    const [a] = rows.ids
    await rows.sql('alter table app.projects add constraint once unique (title) deferrable initially deferred')
    await replace(rows, a)
    expect(await bodies(rows, a)).toEqual(['ONE'])
  })
})
