import { describe, expect, test } from 'vitest'
import type { StorageLocation } from '../../../tenants/isolation/driver.ts'
import { exported, never, replayed } from '../copy/copy.fixture.ts'
import { type CopyFixture, locationFor } from '../copy/copy-storage.fixture.ts'
import { BEFORE, fill, TENANT, withFixture } from '../copy/rows.fixture.ts'

/** Its only index does not lead with `tenant_id`. */
const UNINDEXED = {
  name: '0003_unindexed',
  checksum: 'c',
  up: `create table marks (${TENANT}, mark int); create index on marks (mark)`,
}

interface Subject {
  readonly fixture: CopyFixture
  readonly neighbour: StorageLocation
  readonly first: StorageLocation
  /** Imported, with the same rows. */
  readonly next: StorageLocation
  readonly find: (registered: () => Promise<readonly StorageLocation[]>) => Promise<readonly object[]>
}

/** A tenant with two locations, in addition to another tenant. */
async function withSubject(
  owner: Parameters<typeof withFixture>[0],
  work: (subject: Subject) => Promise<void>,
): Promise<void> {
  await withFixture(
    owner,
    async (fixture) => {
      const driver = fixture.drivers['rowscope-pg']
      await fill(fixture, 'rowscope-pg', 'neighbour')
      await fill(fixture, 'rowscope-pg', 'gamma')
      const first = locationFor(fixture, 'rowscope-pg', 'gamma')
      const next = { ...first, locator: driver.locator('gamma', 2), epoch: 2 }
      await driver.import(next, replayed(await exported(driver, first)), { signal: never() })
      const find: Subject['find'] = async (registered) => (await driver.orphanedRows?.('main', registered)) ?? [{}]
      await work({ fixture, neighbour: locationFor(fixture, 'rowscope-pg', 'neighbour'), first, next, find })
    },
    [...BEFORE, UNINDEXED],
  )
}

const switched = async ({ fixture, first, next }: Subject) => {
  const driver = fixture.drivers['rowscope-pg']
  await driver.fence(first)
  await driver.enter?.(next, { signal: never() })
  await driver.unfence(next)
}

describe.each(['a non-superuser owner', 'a superuser'] as const)('orphanedRows, by %s,', (owner) => {
  test('finds rows whose location has left the registry, before and after a switch', async () => {
    await withSubject(owner, async (subject) => {
      const { neighbour, first, next, find } = subject
      const all = async () => [neighbour, first, next]
      const of = (tenantId: string) => [
        { table: 'tenantry_rows.eggs', column: 'tenant_id', tenantId, rows: 1 },
        { table: 'tenantry_rows.hens', column: 'tenant_id', tenantId, rows: 1 },
        { table: 'tenantry_rows.notes', column: 'tenant_id', tenantId, rows: 2 },
      ]
      expect(await find(all)).toEqual([])
      expect(await find(async () => [neighbour, first])).toEqual(of('gamma~2'))
      await switched(subject)
      expect(await find(all)).toEqual([])
      expect(await find(async () => [neighbour, next])).toEqual(of('gamma~1'))
      expect(await find(async () => [first, next])).toEqual(of('neighbour'))
    })
  })

  test('counts rows of unknown tenants by table and tenant_id, with and without an index', async () => {
    await withSubject(owner, async ({ fixture, neighbour, first, next, find }) => {
      await fixture.installation.database.sql(`
        insert into tenantry_rows.notes (tenant_id, body) values ('ghost', 'a'), ('ghost', 'b'), ('it''s', 'c');
        insert into tenantry_rows.marks (tenant_id, mark) values ('ghost', 1), ('gamma', 1)`)
      expect(await find(async () => [neighbour, first, next])).toEqual([
        { table: 'tenantry_rows.marks', column: 'tenant_id', tenantId: 'ghost', rows: 1 },
        { table: 'tenantry_rows.notes', column: 'tenant_id', tenantId: 'ghost', rows: 2 },
        { table: 'tenantry_rows.notes', column: 'tenant_id', tenantId: "it's", rows: 1 },
      ])
    })
  })
})

describe('orphanedRows, while locations change,', () => {
  test('finds nothing if a switch comes between its two readings', async () => {
    await withSubject('a non-superuser owner', async (subject) => {
      const { neighbour, first, next, find } = subject
      const switching = async () => {
        await switched(subject)
        return [neighbour, first, next]
      }
      expect(await find(switching)).toEqual([])
    })
  })

  test('finds nothing if a location is imported after the registry was read', async () => {
    await withSubject('a non-superuser owner', async ({ fixture, neighbour, first, next, find }) => {
      const driver = fixture.drivers['rowscope-pg']
      const third = { ...first, locator: driver.locator('gamma', 3), epoch: 3 }
      const importing = async () => {
        await driver.import(third, replayed(await exported(driver, first)), { signal: never() })
        return [neighbour, first, next]
      }
      expect(await find(importing)).toEqual([])
      expect(await find(async () => [neighbour, first, next])).not.toEqual([])
    })
  })

  test('finds nothing if a location is dropped between its two readings', async () => {
    await withSubject('a non-superuser owner', async ({ fixture, neighbour, first, next, find }) => {
      const dropping = async () => {
        await fixture.drivers['rowscope-pg'].drop(next)
        return [neighbour, first]
      }
      expect(await find(dropping)).toEqual([])
    })
  })
})
