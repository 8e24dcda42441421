/** Tests adoptions by a role of `url` that is no superuser: it needs the membership in the former owners. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createOwner } from '../copy/copy-storage.fixture.ts'
import { type Legacy, locationOf, openLegacy } from './adoption.fixture.ts'
import { baselineOf, LEGACY_APPLICATIONS } from './legacy-schemas.fixture.ts'

const [shop] = LEGACY_APPLICATIONS
let legacy: Legacy

let owner: Awaited<ReturnType<typeof createOwner>>

beforeAll(async () => {
  if (!shop) throw new Error('no application')
  owner = await createOwner(inject('postgresUrl'))
  legacy = await openLegacy(shop.migrations, { ownerUrl: owner.ownerUrl })
  await legacy.sql(
    `do $$ begin execute format('grant create on database %I to ${owner.name}', current_database()); end $$`,
  )
  await legacy.sql(shop.dump('legacy', legacy.role))
})
afterAll(async () => {
  await legacy.end()
  await owner.drop()
})

test('a role that is not a member of the former owner cannot adopt its schema', async () => {
  const { reasons } = await legacy.plan('legacy')
  expect(reasons).toEqual([
    `objects belong to the role "${legacy.role}", and the role of \`url\` is not a member of it: grant it first`,
  ])
})

test('a member of the former owner adopts the schema, and releases it with all owners and rights', async () => {
  await legacy.sql(`grant ${legacy.role} to ${owner.name}`)
  await legacy.sql(
    `do $$ begin execute format('grant create on database %I to ${legacy.role}', current_database()); end $$`,
  )
  const before = await legacy.rights('legacy')
  const location = await legacy.adopt('legacy', { baseline: shop ? baselineOf(shop) : [] })
  const findings = (await legacy.audit('legacy')) as { severity: string }[]
  expect(findings.filter(({ severity }) => severity === 'error')).toEqual([])
  await legacy.asApplication('legacy', shop?.writes.join('; ') ?? '')
  expect(await legacy.driver.migrate(location)).toHaveLength(1)
  await legacy.sql('drop table if exists legacy.notes')
  await legacy.adoption.release(location)
  expect(await legacy.rights('legacy')).toEqual(before)
})

test('a schema of several owners is restored to each of them', async () => {
  const other = `${legacy.role}_other`
  await legacy.sql(`create role ${other}; grant ${other} to ${owner.name}; create schema several authorization ${legacy.role};
    create table several.one (id int); alter table several.one owner to ${legacy.role};
    create table several.two (id int); alter table several.two owner to ${other}`)
  const before = await legacy.rights('several')
  const request = { location: locationOf('several'), baseline: [], acceptDifferences: [] }
  const { digest } = await legacy.adoption.plan(request)
  await legacy.adoption.adopt(request, { adoptionId: randomUUID(), digest, assertNotAbandoned: async () => undefined })
  await legacy.adoption.release(request.location)
  expect(await legacy.rights('several')).toEqual(before)
  await legacy.sql(`drop schema several cascade; drop owned by ${other}; drop role ${other}`)
})

test('a former owner that may create objects in public is a warning, until the right is revoked', async () => {
  await legacy.sql(
    `create schema creating authorization ${legacy.role}; grant create on schema public to ${legacy.role}`,
  )
  const warning = `the role "${legacy.role}" may create objects in the schema "public" of this database: revoke CREATE from it`
  expect((await legacy.plan('creating', { baseline: [] })).warnings).toContain(warning)
  await legacy.sql(`revoke create on schema public from ${legacy.role}`)
  expect((await legacy.plan('creating', { baseline: [] })).warnings).not.toContain(warning)
})
