import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { keysetQuery, NEWEST_FIRST } from '../../kernel/api/page.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { createTestDatabase } from '../../testing/base/database.ts'
import { dropWithRoles } from '../../testing/base/roles.ts'
import { TEST_APP_KEY, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { tenantsMatching } from './search.ts'

const logger = createLogger({ level: 'silent' })

describe('the indexes of searches', () => {
  const TENANTS = 5_000
  let opened: TestTenancy<[]>
  let database: Database

  beforeAll(async () => {
    opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
    database = opened.tenancy.kernel.database
    await database.sql(
      `insert into multitenancy.tenants (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at)
       select 'customer-' || i, 'Name ' || md5(i::text), 'active', '{}', array[md5('domain' || i) || '.example'], 'schema-pg', 'main',
         't1_' || i, timestamptz '2026-01-01 00:00Z' + i * interval '1 second', now()
       from generate_series(1, $1) i`,
      [TENANTS],
    )
    await database.sql('vacuum analyze multitenancy.tenants')
  })
  afterAll(() => opened?.end())

  const planOf = async (q: string, limit = 51) => {
    const query = keysetQuery(tenantsMatching(database, { q }), NEWEST_FIRST, undefined, limit)
    return JSON.stringify(await query.explain('json'))
  }

  test.each([
    ['a whole id', 'customer-4321', 'tenants_search'],
    ['the end of an id', '-4321', 'tenants_search'],
    ['part of a name', 'e c20ad4d', 'tenants_search'],
    ['part of a domain', '7f39f', 'tenants_search'],
    ['three characters', 'zqx', 'tenants_search'],
    ['a beginning of two characters', 'zq', 'tenants_starts'],
    ['a beginning of one character', 'z', 'tenants_starts'],
  ])('serves a search for %s', async (_, q, index) => {
    const plan = await planOf(q)
    expect(plan).toContain(`"Index Name":"${index}"`)
    expect(plan).not.toContain('Seq Scan')
  })

  test('of beginnings have no tenant whose values only contain the term', async () => {
    const query = keysetQuery(tenantsMatching(database, { q: '9' }), NEWEST_FIRST, undefined, 51)
    await database.sql(`update multitenancy.tenants set domains = '{}', name = replace(name, 'Name 9', 'Name-9')`)
    await database.sql('vacuum analyze multitenancy.tenants')
    const { sql, parameters } = query.compile()
    const { rows } = await database.sql(`explain (analyze, format json) ${sql}`, parameters)
    const plan = JSON.stringify(rows[0])
    expect(plan).toContain('"Index Name":"tenants_starts"')
    expect(plan).not.toMatch(/"Rows Removed by (Filter|Index Recheck)":[1-9]/)
  })

  test('reads every third trigram of a long word', async () => {
    const plan = await planOf('customer-77777')
    expect(plan).toContain(`~~ '%cus%tom%er-777%77%'::text)"`)
  })

  test('are not read for a term of all tenants: the page index has them in order', async () => {
    const plan = await planOf('customer')
    expect(plan).toContain('"Index Name":"tenants_page"')
    expect(plan).not.toContain('tenants_search')
  })
})

test('a server that rejects the extension does not prevent the start, and the doctor creates the index later', async () => {
  const created = await createTestDatabase(inject('postgresUrl'))
  const { url } = created
  const database = new Database({ url, max: 2 }, logger)
  try {
    await database.sql(`
      create function reject() returns event_trigger language plpgsql as $$
        begin raise insufficient_privilege; end $$;
      create event trigger no_extensions on ddl_command_start when tag in ('CREATE EXTENSION') execute function reject()`)
    const tenancy = await createTenancy({
      database: { url },
      appKey: TEST_APP_KEY,
      isolation: [schemaPg()],
      role: 'api',
      logger,
    })
    try {
      const findings = async () => (await tenancy.doctor.examine()).checks.filter(({ name }) => name === 'search')
      const fix = async () => (await tenancy.doctor.fix({ approve: async () => true })).fixes
      await tenancy.tenants.create({ id: 'acme', name: 'Acme' })
      const found = async () => (await tenancy.tenants.list({ limit: 1, q: 'cme' })).data.map(({ id }) => id)
      expect(await found()).toEqual(['acme'])
      expect(await findings()).toMatchObject([{ code: 'search.unindexed', severity: 'info', fixable: false }])
      expect(await fix()).toEqual([])

      await database.sql('drop event trigger no_extensions; create extension pg_trgm with schema public')
      expect(await findings()).toMatchObject([{ code: 'search.unindexed', severity: 'info', fixable: true }])
      expect(await fix()).toMatchObject([{ code: 'search.unindexed', isDone: true, outcome: 'created' }])
      expect(await findings()).toEqual([])
      expect(await found()).toEqual(['acme'])
    } finally {
      await tenancy.stop()
    }
  } finally {
    await database.close()
    await dropWithRoles(inject('postgresUrl'), created)
  }
})
