/** Tests storage that cannot be adopted, and adoptions of a catalog that has changed: each leaves owners and rights unchanged. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AdoptionRequest } from '../../../tenants/isolation/adoption.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { provisioned } from '../roles/installation.fixture.ts'
import { type Legacy, locationOf, openLegacy } from './adoption.fixture.ts'

const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (id int primary key, body text)' }
const MORE = { name: '0002_more', checksum: '2', up: 'create table more (id int)' }
const DUMP = (role: string, name = 'legacy') =>
  `create schema ${name} authorization ${role}; create table ${name}.notes (id int primary key, body text); alter table ${name}.notes owner to ${role}`

let legacy: Legacy
const adoptWith = (digest: string, more: Partial<AdoptionRequest> = {}) =>
  legacy.adoption.adopt(
    { location: locationOf('legacy'), baseline: [NOTES.name], acceptDifferences: [], ...more },
    { adoptionId: randomUUID(), digest, assertNotAbandoned: async () => undefined },
  )

beforeAll(async () => {
  legacy = await openLegacy([NOTES, MORE])
  await legacy.sql(`create schema elsewhere; create role ${legacy.role}_other`)
  await provisioned(legacy.driver, 'globex')
})
afterAll(async () => {
  await legacy.sql(`drop owned by ${legacy.role}_other cascade; drop role ${legacy.role}_other`)
  await legacy.end()
})

describe('the plan rejects', () => {
  test.each([
    [
      'a table that the migrations do not create',
      'create table legacy.extra (id int)',
      /^table extra: the migrations do not create it$/,
    ],
    [
      'a missing column',
      'alter table legacy.notes drop body',
      /^column notes.body: does not exist, and the migrations create it$/,
    ],
    [
      'another type',
      'alter table legacy.notes alter body type varchar(9)',
      /^column notes.body: is "character varying\(9\)", and the migrations create "text"$/,
    ],
    [
      'a missing key',
      'alter table legacy.notes drop constraint notes_pkey',
      /^constraint notes.notes_pkey: does not exist/,
    ],
    [
      'row level security',
      'alter table legacy.notes enable row level security',
      /^table notes: is "row level security"/,
    ],
    [
      'a view of another schema',
      'create view elsewhere.v as select * from legacy.notes',
      /^the rule _RETURN on view elsewhere.v of another schema depends on the schema "legacy"$/,
    ],
    [
      'a foreign key of another schema',
      'create table elsewhere.t (id int references legacy.notes)',
      /constraint t_id_fkey on table elsewhere.t of another schema/,
    ],
    [
      'a reference to another tenant',
      'create view legacy.v as select * from t1_globex.notes',
      /^the rule _RETURN on view legacy.v refers to the schema of another tenant$/,
    ],
    [
      'a privileged function',
      `create function legacy.f() returns int language sql security definer as 'select 1'`,
      /^the function f\(\) is SECURITY DEFINER and would run with the rights of the role of `url`/,
    ],
    [
      "another role's function in an exclusion without a column",
      `create function elsewhere.one() returns int language plpgsql immutable as 'begin return 1; end';
       alter function elsewhere.one() owner to $role; alter table legacy.notes add exclude (elsewhere.one() with =)`,
      /^the schema uses the function elsewhere.one\(\), whose owner could change it/,
    ],
    [
      "another role's function",
      `create function elsewhere.f() returns trigger language plpgsql as 'begin return new; end'; alter function elsewhere.f() owner to $role;
      create trigger t before insert on legacy.notes for each row execute function elsewhere.f()`,
      /^the schema uses the function elsewhere.f\(\), whose owner could change it/,
    ],
    [
      "an index with another role's function",
      `create function elsewhere.g(text) returns text language sql immutable as 'select $1'; alter function elsewhere.g owner to $role;
      create index on legacy.notes (elsewhere.g(body))`,
      /^the schema uses the function elsewhere.g\(text\), whose owner could change it/,
    ],
    [
      "a domain with another role's function",
      `create function elsewhere.h(text) returns bool language sql immutable as 'select true'; alter function elsewhere.h owner to $role;
      create domain legacy.d as text check (elsewhere.h(value))`,
      /^the schema uses the function elsewhere.h\(text\), whose owner could change it/,
    ],
    [
      'an extension in the schema',
      'create extension pg_trgm schema legacy',
      /^the extension "pg_trgm" is in the schema/,
    ],
    [
      'a right to PUBLIC by another role',
      `grant select on legacy.notes to $role_other with grant option; set role $role_other; grant select on legacy.notes to public; reset role`,
      /^the role "legacy_\w+_other" has granted rights to PUBLIC/,
    ],
  ])('%s', async (_, fault, reason) => {
    await legacy.sql(
      `create schema if not exists elsewhere; ${DUMP(legacy.role)}; grant usage on schema legacy to ${legacy.role}_other`,
    )
    try {
      await legacy.sql(fault.replaceAll('$role', legacy.role))
      const before = await legacy.rights('legacy')
      const { reasons, digest } = await legacy.plan('legacy')
      expect(reasons).toContainEqual(expect.stringMatching(reason))
      await expect(adoptWith(digest)).rejects.toMatchObject({
        code: 'E_NOT_ADOPTABLE',
        status: 409,
        extras: { reasons },
      })
      expect(await legacy.rights('legacy')).toEqual(before)
    } finally {
      await legacy.sql('drop extension if exists pg_trgm cascade; drop schema legacy, elsewhere cascade')
    }
  })

  test.each(['public', 'multitenancy', 'tenantry', 'pg_catalog', 'information_schema'])(
    'the schema %s',
    async (name) => {
      expect((await legacy.plan(name)).reasons).toContainEqual(expect.stringContaining('is reserved'))
    },
  )

  test.each([
    ['multitenancy_jobs_2', 'is reserved'],
    ['tenantry_rows', 'is reserved'],
    ['t7_acme', `has the form of a tenant's: rename it`],
  ])('the schema %s', async (name, reason) => {
    await legacy.sql(`create schema ${name}`)
    expect((await legacy.plan(name)).reasons).toContainEqual(expect.stringContaining(reason))
    await legacy.sql(`drop schema ${name}`)
  })

  test('a missing schema, and storage of a tenant', async () => {
    await expect(legacy.plan('nowhere')).rejects.toMatchObject({
      code: 'E_NOT_ADOPTABLE',
      extras: { reasons: ['the schema "nowhere" does not exist'] },
    })
    expect((await legacy.plan('t1_globex')).reasons).toContainEqual('the schema "t1_globex" is the storage of a tenant')
  })
})

test('a schema whose tenant is unknown to a restored backoffice is adopted after its records were removed', async () => {
  await legacy.sql(DUMP(legacy.role))
  await adoptWith((await legacy.plan('legacy', { baseline: [NOTES.name] })).digest)
  const [scope] =
    await legacy.sql(`select distinct grantee::regrole::text as role from pg_default_acl, aclexplode(defaclacl)
    where defaclnamespace = 'legacy'::regnamespace and grantee <> defaclrole and grantee <> '${legacy.role}'::regrole`)
  await legacy.sql(`delete from tenantry.adoptions where locator = 'legacy'; delete from tenantry.migrations where locator = 'legacy';
    alter default privileges in schema legacy revoke all on tables from ${scope.role};
    alter default privileges in schema legacy revoke all on sequences from ${scope.role};
    alter default privileges in schema legacy revoke all on functions from ${scope.role}`)
  const { reasons, digest } = await legacy.plan('legacy', { baseline: [NOTES.name] })
  expect(reasons).toEqual([])
  await adoptWith(digest)
  expect(await legacy.audit('legacy')).toEqual([])
  await legacy.adoption.release(locationOf('legacy'))
  await legacy.sql('drop schema legacy cascade')
})

describe('an adoption', () => {
  test('accepts differences that are named, and no other', async () => {
    await legacy.sql(`${DUMP(legacy.role)}; alter table legacy.notes add extra int, add more int`)
    try {
      const one = { acceptDifferences: ['column notes.extra'] }
      const { reasons } = await legacy.plan('legacy', one)
      expect(reasons).toEqual(['column notes.more: the migrations do not create it'])
      const both = { acceptDifferences: ['column notes.extra', 'column notes.more'] }
      const plan = await legacy.plan('legacy', both)
      expect(plan).toMatchObject({ reasons: [], differences: [{ isAccepted: true }, { isAccepted: true }] })
      await expect(adoptWith(plan.digest, one)).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
      await adoptWith(plan.digest, both)
      expect(await legacy.audit('legacy')).toEqual([])
    } finally {
      await legacy.adoption.release(locationOf('legacy'))
      await legacy.sql('drop schema legacy cascade')
    }
  })

  test.each([
    ['owner', 'alter table legacy.notes owner to $role_other'],
    ['right', 'grant select on legacy.notes to $role_other'],
    ['object', 'create table legacy.late (id int)'],
    ['column', 'alter table legacy.notes add late int'],
  ])('of a catalog with another %s than that of the plan is rejected', async (_, change) => {
    await legacy.sql(`${DUMP(legacy.role)}; grant usage, create on schema legacy to ${legacy.role}_other`)
    try {
      const acceptDifferences = ['table late', 'column late.id', 'column notes.late']
      const { digest } = await legacy.plan('legacy', { acceptDifferences })
      await legacy.sql(change.replaceAll('$role', legacy.role))
      const before = await legacy.rights('legacy')
      await expect(adoptWith(digest, { acceptDifferences })).rejects.toMatchObject({
        code: 'E_NOT_ADOPTABLE',
        extras: { reasons: [expect.stringContaining('make the plan again')] },
      })
      expect(await legacy.rights('legacy')).toEqual(before)
      await adoptWith((await legacy.plan('legacy', { acceptDifferences })).digest, { acceptDifferences })
    } finally {
      await legacy.adoption.release(locationOf('legacy'))
      await legacy.sql('drop schema legacy cascade')
    }
  })

  test('of a routine that is replaced before its owner changes is rejected', async () => {
    const f = (what: string) =>
      `create or replace function legacy.f() returns text language sql ${what} as 'select current_user'`
    await legacy.sql(`${DUMP(legacy.role)}; create materialized view legacy.counts as select count(*) from legacy.notes;
      alter materialized view legacy.counts owner to ${legacy.role}; set role ${legacy.role}; ${f('')}; reset role`)
    const before = await legacy.rights('legacy')
    const { digest, reasons } = await legacy.plan('legacy', { baseline: [] })
    expect(reasons).toEqual([])
    await legacy.installation.database.session(async (client) => {
      await client.query('begin; select * from legacy.counts')
      const adopting = adoptWith(digest, { baseline: [] })
      adopting.catch(() => undefined)
      await eventually(async () =>
        expect(
          await legacy.sql(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and application_name = 'tenantry ddl' and query like '%alter materialized view%'`),
        ).toHaveLength(1),
      )
      await legacy.asApplication('legacy', f('security definer'))
      await client.query('rollback')
      await expect(adopting).rejects.toMatchObject({
        code: 'E_NOT_ADOPTABLE',
        extras: { reasons: [expect.stringContaining('the function f() is SECURITY DEFINER')] },
      })
    })
    expect(await legacy.rights('legacy')).toEqual(before)
    await legacy.sql('drop schema legacy cascade')
  })

  test('of a schema that was renamed since the plan is rejected, and changes neither it nor a new schema of that name', async () => {
    await legacy.sql(DUMP(legacy.role))
    const { digest } = await legacy.plan('legacy')
    await legacy.sql('alter schema legacy rename to renamed')
    const before = await legacy.rights('renamed')
    await expect(adoptWith(digest)).rejects.toMatchObject({
      code: 'E_NOT_ADOPTABLE',
      extras: { reasons: ['the schema "legacy" does not exist'] },
    })
    await legacy.sql(`${DUMP(legacy.role)}; drop table legacy.notes`)
    const ofNew = await legacy.rights('legacy')
    await expect(adoptWith(digest)).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
    expect([await legacy.rights('renamed'), await legacy.rights('legacy')]).toEqual([before, ofNew])
    expect(await legacy.sql('select locator from tenantry.adoptions')).toEqual([])
    await legacy.sql('drop schema renamed cascade; drop schema legacy cascade')
  })

  test('of ten concurrent ones succeeds exactly once', async () => {
    await legacy.sql(DUMP(legacy.role))
    const { digest } = await legacy.plan('legacy')
    const all = await Promise.allSettled(Array.from({ length: 10 }, () => adoptWith(digest)))
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const one of all) if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'E_NOT_ADOPTABLE' })
    await legacy.adoption.release(locationOf('legacy'))
    await legacy.sql('drop schema legacy cascade')
  })
})
