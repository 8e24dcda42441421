/** Tests of triggers, and of keys that are checked by triggers, during imports into shared tables. */
import { describe, expect, test } from 'vitest'
import { changed, exported, replayed } from './copy.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import { everything, expectNoTrace, type Owner, query, TENANT, take, withFixture } from './rows.fixture.ts'

const noted = (triggers: string) => ({
  name: '0001_noted',
  checksum: 'a',
  up: `create table journal (${TENANT}, what text);
    create table notes (${TENANT}, id int, body text, primary key (tenant_id, id));
    create function journal() returns trigger language plpgsql as $$ begin insert into journal (what) values (new.body); return new; end $$;
    create function shout() returns trigger language plpgsql as $$ begin new.body := upper(new.body); return new; end $$;
    create function look() returns trigger language plpgsql as $$ begin
      if exists (select from notes where tenant_id <> tenantry.current_tenant()) then raise exception 'it sees others'; end if;
      update notes set body = body; return null; end $$;
    ${triggers}`,
})

const JOURNAL = 'create trigger journals after insert on notes for each row execute function journal()'
const SHOUT = 'create trigger shouts before insert on notes for each row execute function shout()'
const LOOK = 'create trigger looks after insert on notes for each statement execute function look()'

export function importsWithTriggers(owners: readonly Owner[]): void {
  describe.each(owners)('import into shared tables with triggers, by %s,', (owner) => {
    /** Prepares a tenant with one note and its journal, and the rows of another tenant. */
    const prepared = (triggers: string, work: Parameters<typeof withFixture>[1]) =>
      withFixture(
        owner,
        async (fixture, newer, role) => {
          const driver = fixture.drivers['rowscope-pg']
          for (const tenant of ['source', 'other']) {
            await driver.provision(locationFor(fixture, 'rowscope-pg', tenant))
            await query(fixture, 'rowscope-pg', tenant, `insert into notes values (default, 1, 'a note')`)
          }
          await work(fixture, newer, role)
        },
        [noted(triggers)],
      )

    test.each([
      ['adds rows', JOURNAL, ['(taken,"a note")']],
      ['changes rows', SHOUT, []],
    ])('a trigger that %s has no effect on the imported rows', async (_, trigger, journal) => {
      await prepared(trigger, async (fixture, __, role) => {
        const driver = fixture.drivers['rowscope-pg']
        const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
        const lower = changed(copy, 'notes', 'id,body\n1,a note\n')
        const before = await everything(fixture)
        if (owner !== 'a superuser') {
          await expect(take(driver, 'taken', replayed(lower))).rejects.toMatchObject({
            code: 'E_BACKUP_INCOMPATIBLE',
            message: expect.stringMatching(
              /Triggers changed rows of the table "(journal|notes)".* grant set on parameter session_replication_role/,
            ),
          })
          expect(await everything(fixture)).toEqual(before)
          await fixture.installation.database.sql(`grant set on parameter session_replication_role to ${role}`)
        }
        try {
          await take(driver, 'taken', replayed(lower))
          const { notes, journal: all } = await everything(fixture)
          expect(notes?.filter((row) => row.startsWith('(taken'))).toEqual(['(taken,1,"a note")'])
          expect(all?.filter((row) => row.startsWith('(taken'))).toEqual(journal)
          expect(all?.filter((row) => !row.startsWith('(taken'))).toEqual(before.journal)
        } finally {
          if (role)
            await fixture.installation.database.sql(`revoke set on parameter session_replication_role from ${role}`)
        }
        await expectNoTrace(fixture)
      })
    })

    test('a trigger that runs during an import reads and changes only rows of the tenant', async () => {
      await prepared(LOOK, async (fixture) => {
        const driver = fixture.drivers['rowscope-pg']
        const before = await everything(fixture)
        await take(driver, 'taken', replayed(await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))))
        expect(await everything(fixture)).toEqual({
          ...before,
          notes: ['(other,1,"a note")', '(source,1,"a note")', '(taken,1,"a note")'],
        })
      })
    })

    test.each([
      [
        'a trigger with ENABLE ALWAYS would run',
        `${JOURNAL}; alter table notes enable always trigger journals`,
        /Triggers changed rows of the table "journal"/,
      ],
      [
        'a key is deferrable',
        'alter table notes add unique (tenant_id, body) deferrable initially deferred',
        undefined,
      ],
      [
        'an exclusion constraint is deferrable',
        'alter table notes add exclude using btree (tenant_id with =, body with =) deferrable',
        undefined,
      ],
    ])('triggers are not disabled where %s', async (_, change, expected) => {
      await prepared(change, async (fixture) => {
        const driver = fixture.drivers['rowscope-pg']
        const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
        const before = await everything(fixture)
        if (expected) {
          await expect(take(driver, 'taken', replayed(copy))).rejects.toThrow(expected)
        } else {
          const twice = changed(copy, 'notes', 'id,body\n1,same\n2,same\n')
          await expect(take(driver, 'taken', replayed(twice))).rejects.toMatchObject({
            code: 'E_BACKUP_INCOMPATIBLE',
            message: expect.stringMatching(/"notes" violates its constraint "notes_tenant_id_body_(key|excl)"/),
          })
          expect(await everything(fixture)).toEqual(before)
          await take(driver, 'taken', replayed(copy))
        }
        await expectNoTrace(fixture)
      })
    })
  })
}
