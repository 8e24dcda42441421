/** Tests that an imported copy equals the exported rows, between every two drivers and for all owners of the tables. */
import fc from 'fast-check'
import pg from 'pg'
import { describe, expect, inject, test } from 'vitest'
import { createSecrets } from '../../../kernel/crypto/crypto.ts'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { StorageLocation } from '../../../tenants/isolation/driver.ts'
import { readArchive } from '../../../tenants/transfers/archive/reader.ts'
import { archived } from '../../../tenants/transfers/archive/writer.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { TEST_APP_KEY } from '../../../testing/base/tenancy.ts'
import { exported, never, replayed } from './copy.fixture.ts'
import { type CopyFixture, KINDS, type Kind, locationFor, openCopyFixture, withOwner } from './copy-storage.fixture.ts'
import { type GeneratedSchema, generatedSchema } from './generated-schema.fixture.ts'

const RUNS = 5
const quote = pg.escapeIdentifier

async function admin(text: string): Promise<void> {
  const client = new pg.Client(inject('postgresUrl'))
  await client.connect()
  await client.query(text).finally(() => client.end())
}

/** Inserts rows as the superuser, without checks of keys and triggers. */
async function plant(
  fixture: CopyFixture,
  location: StorageLocation,
  { tables }: GeneratedSchema,
  whose: string,
): Promise<void> {
  await fixture.reach(location, async (client, schema) => {
    await client.query(`set search_path = ${quote(schema)}; set session_replication_role = replica; set datestyle = iso;
      select set_config('app.tenant_id', ${pg.escapeLiteral(location.isolation === 'rowscope-pg' ? location.locator : location.tenantId)}, false)`)
    for (const { name, columns, rows } of tables) {
      for (const row of rows) {
        const values = row.map((value, index) => (columns[index]?.name === 'whose' ? whose : value))
        const casts = columns.map(({ type }, index) => `$${index + 1}::text::${type}`)
        await client.query(
          `insert into ${quote(name)} (${columns.map((column) => quote(column.name)).join(', ')}) overriding system value values (${casts.join(', ')})`,
          values,
        )
      }
    }
  })
}

/** The rows that the tenant sees, in a normalised order. */
async function rowsOf(
  fixture: CopyFixture,
  location: StorageLocation,
  { tables }: GeneratedSchema,
): Promise<Record<string, string[]>> {
  const { pool } = directHandle(fixture.drivers[location.isolation as Kind], location)
  const all: Record<string, string[]> = {}
  for (const { name, columns } of tables) {
    const texts = [...columns, { name: 'twice' }].map((column) => `${quote(column.name)}::text`)
    const { rows } = await pool.query({
      text: `select ${texts.join(', ')} from ${quote(name)}`,
      rowMode: 'array',
    })
    all[name] = rows.map((row) => JSON.stringify(row)).sort()
  }
  return all
}

const sequencesOf = (fixture: CopyFixture, location: StorageLocation) =>
  fixture.reach(location, async (client, schema) => {
    const { rows } = await client.query(
      `select relname, seqincrement from pg_class join pg_sequence on seqrelid = pg_class.oid where relnamespace = $1::regnamespace order by relname`,
      [quote(schema)],
    )
    const next = new Map<string, bigint>()
    for (const { relname } of rows) {
      const {
        rows: [row],
      } = await client.query(`select nextval($1)`, [`${quote(schema)}.${quote(relname)}`])
      next.set(relname, BigInt(row.nextval))
    }
    return { next, steps: new Map(rows.map(({ relname, seqincrement }) => [relname, BigInt(seqincrement)])) }
  })

/** Writes and reads an archive, as a backup and its restore do. */
async function throughArchive(copy: TenantCopy): Promise<TenantCopy> {
  const subject = { tenantId: 'source', backupId: '0198f0a4-0000-7000-8000-000000000001', createdAt: new Date() }
  const secrets = createSecrets(TEST_APP_KEY)
  const encrypted = await Array.fromAsync(secrets.encryptStream(archived(copy, subject), subject.backupId))
  async function* kept() {
    yield* encrypted
  }
  return readArchive(secrets.decryptStream(kept(), subject.backupId), subject)
}

async function holds(
  schema: GeneratedSchema,
  kinds: readonly Kind[],
  ownerUrl?: (url: string) => string,
): Promise<void> {
  const migrations = [{ name: '0001', checksum: 'x', up: schema.statements.join(';\n') }]
  const options = { migrations, ...(ownerUrl ? { ownerUrl } : {}) }
  const here = await openCopyFixture(inject('postgresUrl'), options)
  const there = await openCopyFixture(inject('postgresUrl'), options)
  try {
    for (const fixture of [here, there]) {
      for (const kind of kinds) {
        await fixture.drivers[kind].provision(locationFor(fixture, kind, 'other'))
        await plant(fixture, locationFor(fixture, kind, 'other'), schema, 'other')
      }
    }
    for (const kind of kinds) {
      const source = locationFor(here, kind, 'source')
      await here.drivers[kind].provision(source)
      await plant(here, source, schema, 'mine')
      const before = await rowsOf(here, source, schema)
      await sequencesOf(here, source)
      const copy = await exported(here.drivers[kind], source)
      const expected = await sequencesOf(here, source)
      expect(copy.totals.map(({ rows }) => rows)).toEqual(
        copy.description.tables.map(({ name }) => schema.tables.find((table) => table.name === name)?.rows.length ?? 0),
      )
      for (const to of kinds) {
        for (const fixture of [here, there]) {
          const target = locationFor(fixture, to, `${kind}-${to}`)
          const pieces = replayed(copy, 1 + (copy.totals.length % 50))
          const passed = fixture === there ? await throughArchive(pieces) : pieces
          const { rows } = await fixture.drivers[to].import(target, passed, { signal: never() })
          expect([...rows.values()]).toEqual(copy.totals.map(({ rows }) => rows))
          expect(await rowsOf(fixture, target, schema)).toEqual(before)
          const { next, steps } = await sequencesOf(fixture, target)
          for (const [name, value] of next) {
            const copied = copy.description.sequences.find((one) => one.name === name)
            const last = BigInt(copied?.lastValue ?? 0)
            if (to !== 'rowscope-pg') expect(value).toBe(expected.next.get(name))
            else expect((steps.get(name) ?? 0n) > 0n ? value > last : value < last).toBe(true)
          }
        }
      }
      expect(await rowsOf(here, source, schema)).toEqual(before)
    }
    for (const fixture of [here, there]) {
      for (const kind of kinds) {
        const rows = await rowsOf(fixture, locationFor(fixture, kind, 'other'), schema)
        for (const { name, rows: planted, columns } of schema.tables) {
          const at = columns.findIndex((column) => column.name === 'whose')
          expect(rows[name]?.map((row) => JSON.parse(row)[at])).toEqual(planted.map(() => 'other'))
        }
      }
    }
  } finally {
    await here.end()
    await there.end()
  }
}

describe('an imported copy equals the exported one', () => {
  const always = (property: fc.IAsyncProperty<[[boolean, GeneratedSchema]]>) =>
    fc.assert(property, { numRuns: RUNS, endOnFailure: true })
  const generated = (hasTenantId: boolean) =>
    fc
      .boolean()
      .chain((hasTriggers) => fc.tuple(fc.constant(hasTriggers), generatedSchema({ hasTenantId, hasTriggers })))

  test('an imported copy equals the exported one between every two drivers and placements, by a superuser', {
    timeout: 600_000,
  }, async () => {
    await always(fc.asyncProperty(generated(true), ([, schema]) => holds(schema, KINDS)))
  })

  test('an imported copy equals the exported one by a non-superuser owner', { timeout: 600_000 }, async () => {
    await always(
      fc.asyncProperty(generated(true), ([hasTriggers, schema]) =>
        withOwner(inject('postgresUrl'), async (ownerUrl, role) => {
          if (hasTriggers) await admin(`grant set on parameter session_replication_role to ${role}`)
          await holds(schema, KINDS, ownerUrl)
        }),
      ),
    )
  })

  test('an imported copy equals the exported one for tables without tenant_id', { timeout: 600_000 }, async () => {
    await always(fc.asyncProperty(generated(false), ([, schema]) => holds(schema, ['schema-pg', 'database-pg'])))
  })
})
