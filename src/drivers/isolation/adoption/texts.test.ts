/** Tests the parsers of texts of PostgreSQL: search paths and rights. */
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { parseRights } from './rights.ts'
import { parseSearchPath, searchPathValue } from './search-path.ts'

test.each([
  ['"$user", public', '"$user", "public"'],
  ['Legacy,"Legacy" , "a""b, c"', '"legacy", "Legacy", "a""b, c"'],
  ['""', "''"],
  ['', "''"],
  [' "", app ', '"app"'],
])('the search path %s is a list of quoted names', (text, value) => {
  const { names, irregular } = parseSearchPath(text)
  expect(searchPathValue(names)).toBe(value)
  expect(irregular).toEqual([])
})

test('a name that is no identifier is reported, and quoted', () => {
  const text = 'public, x;alter/**/role/**/legacy/**/superuser'
  const { names, irregular } = parseSearchPath(text)
  expect(irregular).toEqual(['x;alter/**/role/**/legacy/**/superuser'])
  expect(searchPathValue(names)).toBe('"public", "x;alter/**/role/**/legacy/**/superuser"')
})

test.each(['"open', 'a b', 'a,,b'])('text that PostgreSQL rejects, too, is an error: %s', (text) => {
  expect(() => parseSearchPath(text)).toThrow('not a list of names')
})

test('rights are those of aclexplode, for all privileges and any name of a role', async () => {
  const names = ['acl plain', 'acl_plain', 'acl"quoted=r*w/x', 'ACL', 'aclé', 'acl,{}\\']
  const server = new pg.Client({ connectionString: inject('postgresUrl') })
  await server.connect()
  try {
    await server.query('begin')
    for (const name of names) await server.query(`create role ${pg.escapeIdentifier(name)}`)
    const list = names.map((name) => pg.escapeIdentifier(name)).join(', ')
    await server.query(`create schema acl_test; create table acl_test.t (id int); create sequence acl_test.s;
      create function acl_test.f() returns int language sql as 'select 1';
      grant all on schema acl_test to ${list}, public; grant all on acl_test.t to ${list} with grant option; grant all on acl_test.t to public;
      grant all on sequence acl_test.s to ${list}; grant execute on function acl_test.f() to ${list} with grant option;
      set local role ${pg.escapeIdentifier('acl"quoted=r*w/x')}; grant select on acl_test.t to "ACL"; reset role`)
    const { rows } = await server.query(`
      with acl as (
        select nspacl as acl from pg_namespace where nspname = 'acl_test'
        union all select relacl from pg_class where relnamespace = 'acl_test'::regnamespace and relacl is not null
        union all select proacl from pg_proc where pronamespace = 'acl_test'::regnamespace
        union all select acldefault('d', 10))
      select acl::text[] as text, (select json_agg(json_build_object('grantee', case grantee when 0 then '' else pg_get_userbyid(grantee) end,
          'grantor', pg_get_userbyid(grantor), 'privilege', privilege_type, 'isGrantable', is_grantable)) from aclexplode(acl)) as rights
      from acl`)
    expect(rows).toHaveLength(5)
    for (const { text, rights } of rows) {
      expect(parseRights(text)).toHaveLength(rights.length)
      expect(parseRights(text)).toEqual(expect.arrayContaining(rights))
    }
    expect(() => parseRights(['acl=?/acl'])).toThrow('unknown')
  } finally {
    await server.end()
  }
})
