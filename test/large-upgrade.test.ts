/** Upgrades large tables of the first recorded release while other processes write. */
import { expect, inject, test } from 'vitest'
import { createLogger } from '../src/kernel/base/logger.ts'
import { Database } from '../src/kernel/database/database.ts'
import { migrate } from '../src/kernel/database/migrations.ts'
import { catalogueOf } from '../src/service/catalogue.ts'
import { satellites } from '../src/service/main.ts'
import { createTestDatabase } from '../src/testing/base/database.ts'
import { readRecorded, releases } from './releases/recorded.ts'

const { tables } = catalogueOf(satellites)
const released: Record<string, Record<string, string>> = readRecorded(releases[0] ?? '', 'migrations.json')

/** Migrations of that release, and further ones by `part/name`. */
const releasedWith = (...further: string[]) =>
  tables.map(({ part, migrations }) => ({
    part,
    migrations: migrations.filter(({ name }) => name in (released[part] ?? {}) || further.includes(`${part}/${name}`)),
  }))

/** Adds chains of seals. Two consecutive seals of a chain have the same time. */
const addSeals = (database: Database, chains: number, length: number) =>
  database.sql(
    `insert into multitenancy.audit_seals (tenant_id, seq, entry_id, created_at, digest, hash)
     select 'tenant-' || chain, seq, gen_random_uuid(), timestamptz '2026-01-01Z' + chain * interval '1 second'
       + (seq - seq % 2) * interval '1 minute', '', ''
     from generate_series(1, $1::int) chain, generate_series(1, $2::int) seq`,
    [chains, length],
  )

const positions = async (database: Database) =>
  (
    await database.sql(
      `select position, tenant_id || ' ' || seq as seal from multitenancy.audit_seals order by position`,
    )
  ).rows

async function withDatabase(work: (database: Database) => Promise<void>) {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const database = new Database({ url }, createLogger({ level: 'silent' }))
  try {
    await work(database)
  } finally {
    await database.close()
    await drop()
  }
}

test('an upgrade rewrites no table under a lock', async () => {
  await withDatabase(async (database) => {
    await migrate(database, releasedWith())
    await database.sql(`
      create function reject() returns event_trigger language plpgsql as $$
        begin raise exception 'rewrites %', pg_event_trigger_table_rewrite_oid()::regclass; end $$;
      create event trigger no_rewrite on table_rewrite execute function reject()`)
    const upgraded = await migrate(database, tables)
    expect(upgraded).toContain('tenants/0003_search_index')
    expect(upgraded).toContain('auditLogs/0003_audit_positions')
  })
})

test('an upgrade creates no index of an existing table under a lock', () => {
  const locking = tables.flatMap(({ part, migrations }) =>
    migrations.flatMap(({ name, up }) => {
      if (name in (released[part] ?? {}) || typeof up !== 'string') return []
      const created = new Set(Array.from(up.matchAll(/create table (\w+)/g), ([, table]) => table))
      const indexed = Array.from(up.matchAll(/create (?:unique )?index \w+ on (\w+)/g), ([, table]) => table)
      return indexed.filter((table) => !created.has(table)).map((table) => `${part}/${name}: ${table}`)
    }),
  )
  expect(locking).toEqual([])
})

test('an upgrade numbers existing seals in the order of time, before seals that are added meanwhile', async () => {
  await withDatabase(async (database) => {
    await migrate(database, releasedWith())
    await addSeals(database, 5, 5_000)
    const { rows: ordered } = await database.sql(
      `select tenant_id || ' ' || seq as seal from multitenancy.audit_seals order by created_at, tenant_id, seq`,
    )
    await migrate(database, releasedWith('auditLogs/0002_audit_stream'))
    await database.sql(`insert into multitenancy.audit_seals (tenant_id, seq, entry_id, created_at, digest, hash)
      values ('tenant-1', 5001, gen_random_uuid(), '2020-01-01Z', '', '')`)
    // The first batch of an interrupted run.
    await database.sql(
      `update multitenancy.audit_seals s set position = place
       from unnest($1::text[]) with ordinality first (seal, place) where tenant_id || ' ' || seq = seal`,
      [ordered.slice(0, 10_000).map(({ seal }) => seal)],
    )
    await migrate(database, tables)
    const expected = [...ordered.map(({ seal }) => seal), 'tenant-1 5001']
    expect(await positions(database)).toEqual(expected.map((seal, n) => ({ position: n + 1, seal })))
  })
})

test('an upgrade without seals starts at position 1', async () => {
  await withDatabase(async (database) => {
    await migrate(database, releasedWith())
    await migrate(database, tables)
    await addSeals(database, 1, 2)
    expect(await positions(database)).toEqual([
      { position: 1, seal: 'tenant-1 1' },
      { position: 2, seal: 'tenant-1 2' },
    ])
  })
})
