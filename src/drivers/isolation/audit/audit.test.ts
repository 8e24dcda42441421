/**
 * Tests findings of `doctor --prove` in a new installation, about objects outside of tenants' schemas, and on
 * unreachable servers.
 */
import { describe, expect, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import { locationOf } from '../roles/installation.fixture.ts'
import { type Fault, locationsOf, TENANTS, useSchemas } from './audit.fixture.ts'

const here = useSchemas()

test('a new installation has no finding', async () => {
  expect(await here.audited.audit()).toEqual([])
})

test('an installation with a fenced tenant or without tenants has no finding', async () => {
  const { driver } = here.audited
  await driver.fence(locationOf(driver, 'acme'))
  expect(await here.audited.faults()).toEqual([])
  await driver.unfence(locationOf(driver, 'acme'))
  expect(await Array.fromAsync(driver.audit((async function* () {})()))).toEqual([])
})

const elsewhere: readonly Fault[] = [
  {
    code: 'isolation.public-temporary',
    severity: 'warn',
    words: 'database $db allows PUBLIC, including tenants, to create temporary objects',
    by: 'grant temporary on database $db to public',
    fixedBy: 'revoke temporary on database $db from public',
  },
  ...[
    ['lo_create(oid)', 'use large objects'],
    ['loread(integer, integer)', 'use large objects'],
    ['pg_terminate_backend(integer, bigint)', 'cancel statements and end sessions'],
    ['pg_logical_emit_message(boolean, text, text, boolean)', 'write messages'],
  ].map(([name, words]) => ({
    code: 'isolation.public-functions',
    severity: 'warn' as const,
    words: `database $db allows PUBLIC to ${words}`,
    by: `grant execute on function ${name} to public`,
    fixedBy: `revoke execute on function ${name} from public`,
  })),
  {
    code: 'isolation.public-functions',
    severity: 'warn',
    words: 'connect to other servers through dblink',
    by: 'create schema remote; create extension dblink schema remote',
    fixedBy: 'drop extension dblink; drop schema remote',
  },
  ...['public', '$scope'].map((grantee) => ({
    code: 'isolation.server-functions',
    words: 'function pg_read_file(text) is not executable by PUBLIC',
    by: `grant execute on function pg_read_file(text) to ${grantee}`,
    fixedBy: `revoke execute on function pg_read_file(text) from ${grantee}`,
  })),
  {
    code: 'isolation.public-creates-schemas',
    words: 'database $db allows',
    by: 'grant create on database $db to public',
    fixedBy: 'revoke create on database $db from public',
  },
  {
    code: 'isolation.public-may-create',
    severity: 'warn',
    words: 'schema public allows PUBLIC, including tenants, to create objects',
    by: 'grant create on schema public to public',
    fixedBy: 'revoke create on schema public from public',
  },
  {
    code: 'isolation.extensions-schema-writable',
    words: 'schema extensions is in the search path',
    by: 'grant create on schema extensions to public',
    fixedBy: 'revoke create on schema extensions from public',
  },
  ...[
    ['table multitenancy.tenants', 'select'],
    ['table tenantry.migrations', 'delete'],
    ['schema multitenancy', 'usage'],
    ['schema public', 'create'],
  ].map(([object, right]) => ({
    code: 'isolation.scope-rights-elsewhere',
    words: `${object} belongs to no tenant, and every tenant's statement has the right to ${right}`,
    by: `grant ${right} on ${object} to $scope`,
    fixedBy: `revoke ${right} on ${object} from $scope`,
  })),
  {
    code: 'isolation.scope-rights-elsewhere',
    words: 'table multitenancy.tenants belongs to no tenant',
    by: 'grant update (name) on multitenancy.tenants to $scope',
    fixedBy: 'revoke update (name) on multitenancy.tenants from $scope',
  },
  {
    code: 'isolation.public-rights-elsewhere',
    severity: 'warn',
    words: 'table public.prices gives PUBLIC, including tenants, the right to select',
    by: 'create table public.prices (); grant select on public.prices to public',
    fixedBy: 'drop table public.prices',
  },
  {
    code: 'isolation.security-definer',
    severity: 'warn',
    words: 'function public.whoami() runs with the rights of',
    by: `create function public.whoami() returns text security definer language sql return current_user`,
    fixedBy: 'drop function public.whoami',
  },
  {
    code: 'isolation.security-definer',
    severity: 'warn',
    words: 'function tenantry.post(uuid,text,text,text,text) runs with the rights of',
    by: 'alter function tenantry.post(uuid, text, text, text, text) reset search_path',
    fixedBy: 'alter function tenantry.post(uuid, text, text, text, text) set search_path = pg_catalog, pg_temp',
  },
]

describe('the audit of an object outside of tenants’ schemas reports', () => here.findsFaults(elsewhere))

describe('the audit reports as not examined', () => {
  test('an unreachable server', async () => {
    const { installation, placement } = here.audited
    const away = { ...placement, name: 'away', url: 'postgres://unknown@127.0.0.1:1/nothing' }
    const both = await installation.open(placement)
    await both.stop()
    await both.start({
      installation: installation.id,
      placements: new Map([away, placement].map((one) => [one.name, one])),
      migrations: [],
      generation: () => 0,
      log: createLogger({ level: 'silent' }),
    })
    const found = await Array.fromAsync(both.audit(locationsOf(both, TENANTS)))
    expect(found).toMatchObject([
      {
        severity: 'error',
        code: 'doctor.not-examined',
        message: 'The isolation on "away" could not be examined: connection refused',
      },
    ])
  })

  test('a login that the server rejects', async () => {
    await here.run('alter role $login nologin')
    const found = await here.audited.faults()
    await here.run('alter role $login login')
    expect(found).toMatchObject([
      {
        code: 'doctor.not-examined',
        message: expect.stringContaining('Unscoped access on "main"'),
      },
    ])
  })
})
