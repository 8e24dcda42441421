/** Tests the adoption of shared tables by a role of `url` that is no superuser. Its own policies bind this role. */
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createOwner } from '../copy/copy-storage.fixture.ts'
import { openRows, type Rows } from './row-adoption.fixture.ts'

let owner: Awaited<ReturnType<typeof createOwner>>
let rows: Rows

beforeAll(async () => {
  owner = await createOwner(inject('postgresUrl'))
  rows = await openRows('uuid', { ownerUrl: owner.ownerUrl })
  await rows.create()
})
afterAll(async () => {
  await rows.end()
  await owner.drop()
})

test('a role that is not a member of the former owner cannot adopt its tables', async () => {
  expect((await rows.plan({ baseline: [] })).reasons).toContain(
    `objects belong to the role "${rows.role}", and the role of \`url\` is not a member of it: grant it first`,
  )
})

test('a member of the former owner adopts the tables, serves their tenants, and releases them', async () => {
  await rows.sql(`grant ${rows.role} to ${owner.name};
    do $$ begin execute format('grant create on database %I to ${rows.role}', current_database()); end $$`)
  const [a, b] = rows.ids
  const before = await rows.catalog()
  await rows.adopt()
  const findings = (await rows.audit()) as { severity: string }[]
  expect(findings.filter(({ severity }) => severity === 'error')).toEqual([])
  expect((await sql`select body from tasks`.execute(rows.handle(a).db)).rows).toEqual([{ body: 'ONE' }])
  expect(await rows.asApplication('select body from tasks')).toHaveLength(3)
  const copied = await rows.driver.export(
    rows.location(a),
    async (copy) => copy.description.tables.map(({ name }) => name),
    { signal: new AbortController().signal },
  )
  expect(copied).toEqual(['projects', 'tasks'])
  expect(await rows.driver.migrate(rows.location(a))).toEqual(['0002_labels'])
  await rows.driver.drop(rows.location(b))
  expect(await rows.asApplication('select body from tasks')).toEqual([{ body: 'ONE' }])
  await rows.sql('drop table app.labels')
  await rows.release()
  expect(await rows.catalog()).toEqual(before)
})
