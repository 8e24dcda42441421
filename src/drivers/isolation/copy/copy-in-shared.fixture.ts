import { describe, expect, test } from 'vitest'
import { type BufferedCopy, changed, exported, replayed } from './copy.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import { BEFORE, everything, expectNoTrace, fill, type Owner, query, take, withFixture } from './rows.fixture.ts'

/** Tests of imports into shared tables. */
export function importsOfRows(owners: readonly Owner[]): void {
  describe.each(owners)('import into shared tables, by %s,', (owner) => {
    test('rows of a copy from any driver are imported unchanged as rows of the new tenant', async () => {
      await withFixture(owner, async (fixture) => {
        await fill(fixture, 'rowscope-pg', 'other')
        for (const kind of ['schema-pg', 'rowscope-pg'] as const) {
          await fill(fixture, kind, 'source')
          const before = await everything(fixture)
          const imported = await take(
            fixture.drivers['rowscope-pg'],
            `from-${kind}`,
            replayed(await exported(fixture.drivers[kind], locationFor(fixture, kind, 'source')), 5),
          )
          expect(imported.migrations).toEqual(BEFORE.map(({ name }) => name))
          expect(imported.rows.get('notes')).toBe(2)
          expect(
            await query(
              fixture,
              'rowscope-pg',
              `from-${kind}`,
              'select id - min(id) over (), parent - id, country, body, mood, moods::text, twice - id * 2 from notes order by id',
            ),
          ).toEqual([
            [0, null, 'de', 'one', 'sad', '{sad,happy}', 0],
            [2, -2, null, 'two', null, null, 0],
          ])
          const after = await everything(fixture)
          for (const [table, rows] of Object.entries(after)) {
            expect(rows.filter((row) => !row.startsWith(`(from-${kind},`))).toEqual(before[table])
          }
          await expectNoTrace(fixture)
        }
      })
    })

    test('an import does not write tables that all tenants share and needs their rows to exist', async () => {
      await withFixture(owner, async (fixture) => {
        const driver = fixture.drivers['rowscope-pg']
        await fill(fixture, 'schema-pg', 'source')
        await fixture.installation.database.sql(`insert into t1_source.countries values ('at')`)
        await driver.provision(locationFor(fixture, 'rowscope-pg', 'other'))
        const copy = await exported(fixture.drivers['schema-pg'], locationFor(fixture, 'schema-pg', 'source'))
        const before = await everything(fixture)
        await expect(take(driver, 'taken', replayed(copy))).rejects.toMatchObject({
          code: 'E_BACKUP_INCOMPATIBLE',
          message: expect.stringContaining('new rows for the table "countries"'),
        })
        expect(await everything(fixture)).toEqual(before)
        await fixture.installation.database.sql(`insert into tenantry_rows.countries values ('at'), ('ch')`)
        await take(driver, 'taken', replayed(copy))
        expect((await everything(fixture)).countries).toEqual(['(at,at)', '(ch,ch)', '(de,de)', '(fr,fr)'])
        // A copy of shared tables does not contain the tables that all tenants read.
        const shared = await exported(driver, locationFor(fixture, 'rowscope-pg', 'taken'))
        expect(shared.csv.has('countries')).toBe(false)
        await fixture.installation.database.sql(`update tenantry_rows.notes set country = 'ch' where country = 'de'`)
        const refers = await exported(driver, locationFor(fixture, 'rowscope-pg', 'taken'))
        await fixture.installation.database.sql(
          `update tenantry_rows.notes set country = null; delete from tenantry_rows.countries where code = 'ch'`,
        )
        await expect(take(driver, 'refers', replayed(refers))).rejects.toMatchObject({
          code: 'E_BACKUP_INCOMPATIBLE',
          message: expect.stringContaining('"notes" violates its constraint "notes_country_fkey"'),
        })
        await take(driver, 'does-not', replayed(shared))
        await expectNoTrace(fixture)
      })
    })

    test('rejects an incompatible or incomplete copy and changes nothing', async () => {
      await withFixture(owner, async (fixture) => {
        const driver = fixture.drivers['rowscope-pg']
        await fill(fixture, 'rowscope-pg', 'source')
        const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
        const before = await everything(fixture)
        const assertRejected = async (what: BufferedCopy, expected: RegExp) => {
          await expect(take(driver, 'rejected', replayed(what))).rejects.toMatchObject({
            code: 'E_BACKUP_INCOMPATIBLE',
            message: expect.stringMatching(expected),
          })
          expect(await everything(fixture)).toEqual(before)
        }
        await assertRejected(changed(copy, 'hens', 'id,egg\n1,1\n1,1\n'), /"hens" violates its constraint "hens_pkey"/)
        await assertRejected(
          changed(copy, 'hens', 'id,egg\n1,7\n'),
          /"hens" violates its constraint "hens_tenant_id_egg_fkey"/,
        )
        await assertRejected(
          changed(copy, 'eggs', 'id,hen\n1,7\n'),
          /"eggs" violates its constraint "eggs_tenant_id_hen_fkey"/,
        )
        await assertRejected(changed(copy, 'hens', 'id,egg\n1,\n'), /"hens"/)
        const totals = copy.totals.map((one) => ({ ...one, rows: one.rows + 1 }))
        await assertRejected({ ...copy, totals }, /has 2 rows of the table "eggs", and 1 are there/)
        const whose = copy.description.tables.map((table) =>
          table.name === 'hens'
            ? { ...table, columns: [...table.columns, { name: 'tenant_id', type: 'text' }] }
            : table,
        )
        await assertRejected(
          {
            ...changed(copy, 'hens', 'id,egg,tenant_id\n1,1,source\n'),
            description: { ...copy.description, tables: whose },
          },
          /"tenant_id" of the table "hens" names the tenant of a row/,
        )
        const foreign = [...copy.description.migrations, { name: '0009_theirs', checksum: 'z' }]
        await assertRejected({ ...copy, description: { ...copy.description, migrations: foreign } }, /0009_theirs/)
        const [sequence] = copy.description.sequences
        const far = [{ name: sequence?.name ?? '', lastValue: '9223372036854775807', isCalled: true }]
        const description = { ...copy.description, isolation: 'schema-pg', sequences: far }
        await assertRejected({ ...copy, description }, /has the value 9223372036854775807. In shared tables/)
        await expect(take(driver, 'source', replayed(copy))).rejects.toThrow('already has rows')
        expect(await everything(fixture)).toEqual(before)
        await expectNoTrace(fixture)
      })
    })
  })
}
