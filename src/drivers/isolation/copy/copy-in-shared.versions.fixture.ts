/** Tests of imports into shared tables whose migrations are newer or older than those of the copy. */
import { describe, expect, test } from 'vitest'
import { exported, replayed } from './copy.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import { AFTER, BEFORE, everything, expectNoTrace, fill, type Owner, query, take, withFixture } from './rows.fixture.ts'

export function importsOfVersions(owners: readonly Owner[]): void {
  describe.each(owners)('import into shared tables, by %s,', (owner) => {
    test('a copy that is older than the tables is migrated during the import', async () => {
      await withFixture(owner, async (fixture, newer) => {
        await fill(fixture, 'rowscope-pg', 'other')
        await fill(fixture, 'schema-pg', 'source')
        const copies = [
          await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'other')),
          await exported(fixture.drivers['schema-pg'], locationFor(fixture, 'schema-pg', 'source')),
        ]
        const driver = await newer('rowscope-pg')
        await driver.migrate(locationFor(fixture, 'rowscope-pg', 'other'))
        for (const [index, copy] of copies.entries()) {
          const { migrations, rows } = await take(driver, `old-${index}`, replayed(copy))
          expect(migrations).toEqual(AFTER.map(({ name }) => name))
          expect(rows.get('notes')).toBe(2)
          expect(
            await query(
              fixture,
              'rowscope-pg',
              `old-${index}`,
              'select text, mood, moods::text, shout from notes order by id',
            ),
          ).toEqual([
            ['one', 'sad', '{sad,happy}', 'ONE'],
            ['two', null, null, 'TWO'],
          ])
          expect(await query(fixture, 'rowscope-pg', `old-${index}`, 'select shout from shouts order by id')).toEqual([
            ['ONE'],
            ['TWO'],
          ])
          // A migration took values of a sequence: the shared sequence is beyond them.
          const [[next] = []] = await query(
            fixture,
            'rowscope-pg',
            `old-${index}`,
            `insert into shouts (shout) values ('x') returning id`,
          )
          expect(next).toBeGreaterThan(101)
          await expectNoTrace(fixture)
        }
        expect(await query(fixture, 'rowscope-pg', 'other', 'select shout from notes order by id')).toEqual([
          ['ONE'],
          ['TWO'],
        ])
      })
    })

    test('an import succeeds only while manually added rows of shared tables exist to which the copy refers', async () => {
      await withFixture(owner, async (fixture, newer) => {
        const { database } = fixture.installation
        await fill(fixture, 'rowscope-pg', 'source')
        await database.sql(`insert into tenantry_rows.countries values ('at');
        insert into tenantry_rows.colors (name, mood) values ('BLUE', 'happy'), ('GRAY', null);
        insert into tenantry_rows.cities values (8, 'at', 3)`)
        await query(fixture, 'rowscope-pg', 'source', `update notes set country = 'at', color = 2, city = 8`)
        const copy = await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source'))
        const driver = await newer('rowscope-pg')
        await driver.migrate(locationFor(fixture, 'rowscope-pg', 'source'))
        await take(driver, 'taken', replayed(copy))
        expect(await query(fixture, 'rowscope-pg', 'taken', 'select country, shout from notes order by id')).toEqual([
          ['at', 'ONEBLUE'],
          ['at', 'TWOBLUE'],
        ])
        await database.sql(
          `update tenantry_rows.notes set country = null; update tenantry_rows.cities set country = null;
          delete from tenantry_rows.countries where id = 'at'`,
        )
        await expect(take(driver, 'again', replayed(copy))).rejects.toThrow('"notes_country_fkey"')
      })
    })

    test('a migration that inserts rows of another tenant inserts none during an import', async () => {
      await withFixture(owner, async (fixture) => {
        await fill(fixture, 'rowscope-pg', 'source')
        const copy = await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source'))
        const up = `insert into notes (tenant_id, body) select 'other', 'theirs' from notes limit 1`
        const driver = await fixture.installation.open(await fixture.installation.prepare(), {
          driver: () => fixture.makers['rowscope-pg'](),
          migrations: [...BEFORE, { name: '0003_of_others', checksum: '', up }],
        })
        await driver.migrate(locationFor(fixture, 'rowscope-pg', 'source'))
        const before = await everything(fixture)
        await expect(take(driver, 'taken', replayed(copy))).rejects.toMatchObject({
          code: 'E_BACKUP_INCOMPATIBLE',
          message: expect.stringContaining('rows of another tenant'),
        })
        expect(await everything(fixture)).toEqual(before)
      })
    })

    test('tables that are older than the copy must be migrated before the import', async () => {
      await withFixture(owner, async (fixture, newer) => {
        await fill(fixture, 'rowscope-pg', 'other')
        const [source, driver] = [await newer('schema-pg'), await newer('rowscope-pg')]
        const location = { ...locationFor(fixture, 'schema-pg', 'source') }
        await source.provision(location)
        await source.execute(location, { text: `insert into notes (text, shout) values ('one', 'as it is')` })
        const { migrations } = await take(driver, 'newer', replayed(await exported(source, location)))
        expect(migrations).toEqual(AFTER.map(({ name }) => name))
        expect(await query(fixture, 'rowscope-pg', 'newer', 'select text, shout from notes')).toEqual([
          ['one', 'as it is'],
        ])
        expect(await query(fixture, 'rowscope-pg', 'other', 'select shout from notes order by id')).toEqual([
          ['ONE'],
          ['TWO'],
        ])
      })
    })
  })
}
