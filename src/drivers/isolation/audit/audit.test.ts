/** Findings of `doctor --prove` in a new installation, in objects outside of tenants' schemas, and in databases that it cannot read. */
import { describe, expect, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import { locationOf } from '../roles/installation.fixture.ts'
import { type Fault, locationsOf, TENANTS, useSchemas } from './audit.fixture.ts'

const here = useSchemas()

test('a new installation has no finding', async () => {
  expect(await here.audited.audit()).toEqual([])
})

test('is the same for tenants that are fenced, and where there is no tenant', async () => {
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
    words: 'database $db lets PUBLIC make temporary objects',
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
    words: `database $db lets PUBLIC ${words}`,
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
    words: 'function pg_read_file(text) is not for everybody',
    by: `grant execute on function pg_read_file(text) to ${grantee}`,
    fixedBy: `revoke execute on function pg_read_file(text) from ${grantee}`,
  })),
  {
    code: 'isolation.public-creates-schemas',
    words: 'database $db lets',
    by: 'grant create on database $db to public',
    fixedBy: 'revoke create on database $db from public',
  },
  {
    code: 'isolation.public-may-create',
    severity: 'warn',
    words: 'schema public lets everybody make objects',
    by: 'grant create on schema public to public',
    fixedBy: 'revoke create on schema public from public',
  },
  {
    code: 'isolation.extensions-schema-writable',
    words: 'schema extensions is searched',
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
    words: `${object} is no tenant's, and every tenant's statement has the right to ${right}`,
    by: `grant ${right} on ${object} to $scope`,
    fixedBy: `revoke ${right} on ${object} from $scope`,
  })),
  {
    code: 'isolation.scope-rights-elsewhere',
    words: "table multitenancy.tenants is no tenant's",
    by: 'grant update (name) on multitenancy.tenants to $scope',
    fixedBy: 'revoke update (name) on multitenancy.tenants from $scope',
  },
  {
    code: 'isolation.public-rights-elsewhere',
    severity: 'warn',
    words: 'table public.prices gives everybody, tenants too, the right to select',
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
]

describe('an object outside of tenants’ schemas', () => here.findsFaults(elsewhere))

describe('what cannot be asked is a finding', () => {
  test('a server that does not answer', async () => {
    const { installation, placement } = here.audited
    const away = { ...placement, name: 'away', url: 'postgres://nobody@127.0.0.1:1/nothing' }
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

  test('a login that cannot log in', async () => {
    await here.run('alter role $login nologin')
    const found = await here.audited.faults()
    await here.run('alter role $login login')
    expect(found).toMatchObject([
      {
        code: 'doctor.not-examined',
        message: expect.stringContaining('What an unscoped statement may read on "main"'),
      },
    ])
  })
})
