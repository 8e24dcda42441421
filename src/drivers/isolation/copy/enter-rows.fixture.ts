/**
 * Tests of several locations of one tenant in the same tables: the rows of one have the tenant's id, the others a
 * label.
 */
import { describe, expect, test } from 'vitest'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import { type BufferedCopy, exported, never, replayed } from './copy.fixture.ts'
import { type CopyFixture, locationFor } from './copy-storage.fixture.ts'
import { BEFORE, everything, expectNoTrace, fill, type Owner, query, TENANT, withFixture } from './rows.fixture.ts'

const JOURNAL = {
  name: '0003_journal',
  checksum: 'd',
  up: `alter table notes add column changed_at timestamptz not null default now();
    create function touch() returns trigger language plpgsql as $f$ begin new.changed_at := clock_timestamp(); return new; end $f$;
    create trigger touch before update on notes for each row execute function touch();
    create table journal (${TENANT}, id int generated always as identity, body text, primary key (tenant_id, id));
    create function note_deletion() returns trigger language plpgsql as $f$
      begin insert into journal (body) values (old.body); return null; end $f$;
    create trigger note_deletion after delete on notes for each row execute function note_deletion()`,
}

/** Row level security binds the owner, who may disable triggers. */
export const TRIGGER_DISABLING_OWNER = 'an owner that sets session_replication_role'

interface Subject {
  readonly fixture: CopyFixture
  readonly driver: IsolationDriver
  readonly first: StorageLocation
  /** The next location, which has a copy of the former rows. */
  readonly next: StorageLocation
  readonly copy: BufferedCopy
}

/** Sequences are shared by all tenants. */
const contents = async ({ driver }: Subject, location: StorageLocation) => {
  const { csv, totals } = await exported(driver, location)
  return { csv, totals }
}
const bodies = ({ fixture }: Subject) => query(fixture, 'rowscope-pg', 'gamma', 'select body from notes order by id')
const enter = ({ driver }: Subject, location: StorageLocation) => driver.enter?.(location, { signal: never() })

/** A tenant whose rows changed after the copy, next to another tenant. */
async function withSubject(
  owner: Owner | typeof TRIGGER_DISABLING_OWNER,
  work: (subject: Subject) => Promise<void>,
): Promise<void> {
  await withFixture(
    owner === TRIGGER_DISABLING_OWNER ? 'a non-superuser owner' : owner,
    async (fixture, _, role) => {
      if (owner === TRIGGER_DISABLING_OWNER) {
        await fixture.installation.database.sql(`grant set on parameter session_replication_role to ${role}`)
      }
      const driver = fixture.drivers['rowscope-pg']
      await fill(fixture, 'rowscope-pg', 'neighbour')
      await fill(fixture, 'rowscope-pg', 'gamma')
      const first = locationFor(fixture, 'rowscope-pg', 'gamma')
      const next = { ...first, locator: driver.locator('gamma', 2), epoch: 2 }
      const copy = await exported(driver, first)
      await query(fixture, 'rowscope-pg', 'gamma', `update notes set body = body || ' changed'`)
      await driver.import(next, replayed(copy), { signal: never() })
      await work({ fixture, driver, first, next, copy })
      expect((await query(fixture, 'rowscope-pg', 'neighbour', 'select body from notes order by id')).flat()).toEqual([
        'one',
        'two',
      ])
      await expectNoTrace(fixture)
    },
    [...BEFORE, JOURNAL],
  )
}

/** Switches the location. */
async function change(subject: Subject, from: StorageLocation, to: StorageLocation): Promise<void> {
  await subject.driver.fence(from)
  await enter(subject, to)
  await subject.driver.unfence(to)
}

export function entriesOf(owners: readonly (Owner | typeof TRIGGER_DISABLING_OWNER)[]): void {
  describe.each(owners)('locations in shared tables, by %s,', (owner) => {
    test('the rows of an entered location have the tenant’s id and are exactly as copied', async () => {
      await withSubject(owner, async (subject) => {
        const { fixture, driver, first, next, copy } = subject
        expect(await bodies(subject)).toEqual([['one changed'], ['two changed']])
        await change(subject, first, next)
        expect(await bodies(subject)).toEqual([['one'], ['two']])
        expect(
          await query(fixture, 'rowscope-pg', 'gamma', `select count(*)::int from notes where tenant_id = 'gamma'`),
        ).toEqual([[2]])
        await query(fixture, 'rowscope-pg', 'gamma', `insert into hens (tenant_id, id, egg) values ('gamma', 2, 1)`)
        await query(fixture, 'rowscope-pg', 'gamma', `delete from hens where tenant_id = 'gamma' and id = 2`)
        expect(await contents(subject, next)).toEqual({ csv: copy.csv, totals: copy.totals })
        expect([await driver.isFenced(first), await driver.isFenced(next)]).toEqual([true, false])
        expect(await driver.inventory?.('main')).toContainEqual({ locator: first.locator, isFenced: true })
      })
    })

    test('a former location keeps its rows and can be entered again', async () => {
      await withSubject(owner, async (subject) => {
        const { first, next } = subject
        const before = await contents(subject, first)
        await change(subject, first, next)
        expect(await contents(subject, first)).toEqual(before)
        const again = { ...first, epoch: 3 }
        await change(subject, next, again)
        expect(await contents(subject, again)).toEqual(before)
        expect(await bodies(subject)).toEqual([['one changed'], ['two changed']])
      })
    })

    test('a location is dropped without the other one', async () => {
      await withSubject(owner, async (subject) => {
        const { fixture, driver, first, next } = subject
        await change(subject, first, next)
        await driver.drop(first)
        expect(await bodies(subject)).toEqual([['one'], ['two']])
        await driver.drop(next)
        const rows = Object.values(await everything(fixture)).flat()
        expect(rows.filter((row) => row.startsWith('(gamma'))).toEqual([])
        expect(rows.filter((row) => row.startsWith('(neighbour')).length).toBeGreaterThan(0)
      })
    })

    test('a switch that never commits is undone when the former location is opened', async () => {
      await withSubject(owner, async (subject) => {
        const { driver, first, next } = subject
        await driver.fence(first)
        await enter(subject, next)
        expect([await driver.isFenced(first), await driver.isFenced(next)]).toEqual([true, true])
        await driver.unfence(first)
        expect(await bodies(subject)).toEqual([['one changed'], ['two changed']])
        expect([await driver.isFenced(first), await driver.isFenced(next)]).toEqual([false, true])
      })
    })

    test('a switch that never commits is undone, also if the new location was dropped before', async () => {
      await withSubject(owner, async (subject) => {
        const { driver, first, next, copy } = subject
        await driver.fence(first)
        await enter(subject, next)
        await driver.drop(next)
        expect([await driver.isFenced(first), await driver.isFenced(next)]).toEqual([true, true])
        await driver.unfence(first)
        expect(await bodies(subject)).toEqual([['one changed'], ['two changed']])
        const third = { ...next, locator: driver.locator('gamma', 3), epoch: 3 }
        await driver.import(third, replayed(copy), { signal: never() })
        await change(subject, first, third)
        expect(await bodies(subject)).toEqual([['one'], ['two']])
      })
    })

    test('a purge leaves no rows in any order of dropped locations', async () => {
      await withSubject(owner, async (subject) => {
        const { fixture, driver, first, next } = subject
        await change(subject, first, next)
        await driver.drop(next)
        await driver.drop(first)
        const rows = Object.values(await everything(fixture)).flat()
        expect(rows.filter((row) => row.startsWith('(gamma'))).toEqual([])
        await driver.provision(first)
        expect(await bodies(subject)).toEqual([])
      })
    })

    test('rows of an open tenant keep their labels', async () => {
      await withSubject(owner, async (subject) => {
        await expect(enter(subject, subject.next)).rejects.toThrow('is open: its rows keep their labels')
        expect(await bodies(subject)).toEqual([['one changed'], ['two changed']])
      })
    })

    test('rows that an earlier version restored are entered when the tenant is opened', async () => {
      await withSubject(owner, async (subject) => {
        const { fixture, driver, first, next } = subject
        await driver.fence(first)
        await fixture.installation.database.sql(`delete from tenantry.row_locations where tenant = 'gamma'`)
        await driver.unfence(next)
        expect(await bodies(subject)).toEqual([['one'], ['two']])
        expect([await driver.isFenced(first), await driver.isFenced(next)]).toEqual([true, false])
      })
    })
  })
}
