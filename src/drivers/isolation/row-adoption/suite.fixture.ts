/** The suite of adoptions of shared tables: isolation of the tenants, the former application, and the release. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ColumnType } from '../row-security/tenant-column.ts'
import { IDS, openRows, type Rows } from './row-adoption.fixture.ts'

/** Ids that PostgreSQL would convert to the same value as another id, or to none. */
const ALIASES: Readonly<Record<ColumnType, readonly string[]>> = {
  text: [],
  uuid: [IDS.uuid[0].replaceAll('-', ''), IDS.uuid[0].toUpperCase(), 'acme'],
  integer: ['01', '2147483648'],
  bigint: ['01', '+1', '99999999999999999999'],
}

export const rowAdoptionSuite = (type: ColumnType) =>
  describe(`shared tables with a tenant column of type ${type}`, () => {
    let rows: Rows
    beforeAll(async () => {
      rows = await openRows(type)
    })
    afterAll(() => rows.end())
    beforeEach(() => rows.create())
    const [a, b] = IDS[type]
    const titles = async (id: string) => (await sql`select title from projects`.execute(rows.handle(id).db)).rows

    test('each tenant sees and writes only its own rows', async () => {
      const { tenants, reasons } = await rows.adopt()
      expect(reasons).toEqual([])
      expect(tenants).toEqual([
        { id: a, name: 'Acme' },
        { id: b, name: 'Globex' },
      ])
      expect(await titles(a)).toEqual([{ title: 'of acme' }])
      expect(await titles(b)).toEqual([{ title: 'of globex' }])
      const { db } = rows.handle(a)
      await sql`insert into tasks (project_id, body) values (1, 'new')`.execute(db)
      expect((await sql`select org_id::text as id, body from tasks order by id`.execute(db)).rows).toEqual([
        { id: a, body: 'ONE' },
        { id: a, body: 'NEW' },
      ])
      await expect(sql`insert into tasks (org_id, body) values (${b}, 'x')`.execute(db)).rejects.toMatchObject({
        code: '42501',
      })
      await expect(sql`update tasks set org_id = ${b}`.execute(db)).rejects.toMatchObject({ code: '42501' })
      expect((await sql`delete from projects`.execute(db)).numAffectedRows).toBe(1n)
      expect(await titles(b)).toEqual([{ title: 'of globex' }])
      expect((await sql`select * from countries`.execute(db)).rows).toEqual([{ code: 'de' }])
      expect(await sql`select * from titles`.execute(rows.handle(b).db)).toMatchObject({
        rows: [{ title: 'of globex' }],
      })
    })

    test('the audit of the isolation has no finding', async () => {
      await rows.adopt()
      expect(await rows.audit()).toEqual([])
      expect(await rows.driver.orphanedRows?.('main', async () => [rows.location(a), rows.location(b)])).toEqual([])
      expect(await rows.driver.orphanedRows?.('main', async () => [rows.location(a)])).toMatchObject([
        { table: 'app.projects', tenantId: b, rows: 1 },
        { table: 'app.tasks', tenantId: b, rows: 2 },
      ])
    })

    test('the former application sees and writes the rows of all customers', async () => {
      await rows.adopt()
      await rows.asApplication(`insert into projects (org_id, title) values ('${b}', 'more')`)
      expect(await rows.asApplication('select title from projects order by id')).toHaveLength(3)
      expect(await titles(b)).toHaveLength(2)
      await expect(rows.asApplication('alter table projects add column more int')).rejects.toMatchObject({
        code: '42501',
      })
      expect(await rows.driver.migrate(rows.location(a))).toEqual(['0002_labels'])
      await sql`insert into labels (label) values ('mine')`.execute(rows.handle(a).db)
      await expect(rows.asApplication('select * from labels')).rejects.toMatchObject({ code: '42501' })
    })

    test('a release restores owners, rights, columns and row level security', async () => {
      const before = await rows.catalog()
      await rows.adopt()
      expect(await rows.catalog()).not.toEqual(before)
      await rows.driver.fence(rows.location(a))
      expect(await rows.release()).not.toEqual([])
      expect(await rows.catalog()).toEqual(before)
      expect(await rows.release()).toEqual([])
      await expect(titles(a)).rejects.toThrow()
      await rows.driver.drop(rows.location(a)) // of a late purge
      expect(await rows.asApplication('select title from projects')).toHaveLength(2)
      await rows.adopt()
      expect(await titles(a)).toHaveLength(1)
    })

    test('a backup contains the rows of one tenant, and a purge deletes them', async () => {
      await rows.adopt()
      const counted = await rows.driver.export(
        rows.location(b),
        async (copy) => copy.description.tables.map(({ name, columns }) => [name, columns.map((one) => one.name)]),
        { signal: new AbortController().signal },
      )
      expect(counted).toEqual([
        ['projects', ['id', 'title']],
        ['tasks', ['id', 'project_id', 'body']],
      ])
      expect(await rows.driver.search?.('main', b, 1)).toMatchObject([
        { kind: 'app.projects', count: 1 },
        { kind: 'app.tasks', count: 2 },
      ])
      await rows.driver.drop(rows.location(b))
      expect(await rows.asApplication('select org_id::text as id from tasks')).toEqual([{ id: a }])
    })

    test('an erasure deletes rows that the former application writes after the drop, but not those of an id that was never in use', async () => {
      await rows.adopt()
      const counted: unknown[] = []
      const erased = (id: string) =>
        rows.driver.drop(rows.location(id), { onRows: async (found) => void counted.push(found) })
      await rows.driver.drop(rows.location(b)) // of a purge
      await rows.asApplication(`insert into tasks (org_id, body) values ('${b}', 'late')`)
      await erased(b)
      expect(await rows.driver.search?.('main', b, 1)).toEqual([])
      const id = { text: 'initech', uuid: randomUUID(), integer: '7', bigint: '7' }[type]
      await rows.asApplication(`insert into internal.orgs values ('${id}', 'Initech')`)
      await rows.asApplication(`insert into tasks (org_id, body) values ('${id}', 'kept')`)
      await erased(id)
      await erased(id)
      expect(counted.flat()).toEqual([{ kind: 'app.tasks', count: 1 }])
      expect(await rows.asApplication('select body from tasks order by id')).toEqual([
        { body: 'ONE' },
        { body: 'KEPT' },
      ])
    })

    test('a later tenant is created in the adopted tables', async () => {
      await rows.adopt()
      const id = { text: 'initech', uuid: randomUUID(), integer: '7', bigint: '7' }[type]
      await rows.asApplication(`insert into internal.orgs values ('${id}', 'Initech')`)
      await rows.driver.provision(rows.location(id))
      await sql`insert into projects (title) values ('of initech')`.execute(rows.handle(id).db)
      expect(await titles(id)).toEqual([{ title: 'of initech' }])
    })

    test('a statement without a tenant is rejected', async () => {
      await rows.adopt()
      const [{ scope }] = (await rows.sql(
        `select grantee::regrole::text as scope from pg_class, aclexplode(relacl) where oid = 'app.projects'::regclass
         and grantee::regrole::text like '%scope'`,
      )) as [{ scope: string }]
      for (const text of ['select from app.projects', 'select from app.projects where false or id = 1']) {
        await expect(rows.sql(`begin; set local role ${scope}; ${text}`)).rejects.toMatchObject({ code: '42501' })
      }
      await rows.sql('rollback').catch(() => undefined)
    })

    test.each(ALIASES[type])('the id %s, which is not the text of a value, reaches no rows', async (id) => {
      await rows.adopt()
      expect(rows.driver.isTenantId?.(id)).toBe(false)
      await expect(titles(id)).rejects.toMatchObject({ code: expect.stringMatching(/^(42501|22P02|22003)$/) })
    })
  })
