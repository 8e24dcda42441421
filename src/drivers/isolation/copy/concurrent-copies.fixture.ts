/** Tests that many concurrent copies in one process wait for each other and block no other work. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { COPIES } from '../server/postgres-server.ts'
import { type BufferedCopy, exported, never, replayed } from './copy.fixture.ts'
import { type CopyFixture, type Kind, locationFor, openCopyFixture } from './copy-storage.fixture.ts'

const NOTES = [
  {
    name: '0001_notes',
    checksum: '1',
    up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
  },
]
/** More than the connections of a process. */
const MANY = 40

export function copiesAtOnce(kinds: readonly Kind[]): void {
  describe.each(kinds)('concurrent copies of %s', (kind) => {
    let fixture: CopyFixture
    beforeAll(async () => {
      fixture = await openCopyFixture(inject('postgresUrl'), { migrations: NOTES })
      await driver().provision(locationOf('source'))
    })
    afterAll(() => fixture.end())

    const locationOf = (id: string) => locationFor(fixture, kind, id)
    const driver = () => fixture.drivers[kind]
    const gone = new Error('no longer required')

    /** Copies that continue until they are ended. */
    function visitors() {
      const released = Promise.withResolvers<void>()
      const abort = new AbortController()
      let copies = 0
      const stay = async () => {
        copies++
        await released.promise
      }
      return { startedCopies: () => copies, stay, abort, end: () => released.resolve() }
    }

    /** Storage is created, fenced, unfenced and dropped with the usual concurrency. */
    async function expectOthersGoOn(round: string): Promise<void> {
      const ids = Array.from({ length: 6 }, (_, n) => `${round}-${n}`)
      await Promise.all(
        ids.map(async (id) => {
          expect(await driver().provision(locationOf(id))).toEqual(['0001_notes'])
          await driver().fence(locationOf(id))
          expect(await driver().isFenced(locationOf(id))).toBe(true)
          await driver().unfence(locationOf(id))
          if (driver().capabilities.separateStorage) await driver().migrate(locationOf(id)) // Otherwise the drop waits for imports, as it must.
          await driver().drop(locationOf(id))
        }),
      )
      await driver().inventory?.('main')
    }

    test('exports wait for a free slot or until they are cancelled, and block no other work', async () => {
      const { startedCopies, stay, abort, end } = visitors()
      const exporting = Array.from({ length: COPIES }, () =>
        driver().export(locationOf('source'), stay, { signal: never() }),
      )
      await eventually(() => expect(startedCopies()).toBe(COPIES))
      const waiting = Array.from({ length: MANY }, () =>
        driver().export(locationOf('source'), stay, { signal: abort.signal }),
      )
      const rejected = Promise.allSettled(waiting)
      const next = driver().export(locationOf('source'), stay, { signal: never() })
      await expectOthersGoOn('exports')
      expect(startedCopies()).toBe(COPIES)
      abort.abort(gone)
      expect(await rejected).toEqual(Array(MANY).fill({ status: 'rejected', reason: gone }))
      end()
      await Promise.all([...exporting, next])
      expect(startedCopies()).toBe(COPIES + 1)
    })

    test('imports wait for a free slot or until they are cancelled, and block neither exports nor other work', async () => {
      const held = await exported(driver(), locationOf('source'))
      const { startedCopies, stay, abort, end } = visitors()
      const staying = (copy: BufferedCopy): TenantCopy => ({
        ...replayed(copy),
        async *tables() {
          await stay()
          yield* replayed(copy).tables()
        },
      })
      const importing = Array.from({ length: COPIES }, (_, n) =>
        driver().import(locationOf(`copy-${n}`), staying(held), { signal: never() }),
      )
      await eventually(() => expect(startedCopies()).toBe(COPIES))
      const rejected = Promise.allSettled(
        Array.from({ length: MANY }, (_, n) =>
          driver().import(locationOf(`waiting-${n}`), staying(held), { signal: abort.signal }),
        ),
      )
      const next = driver().export(
        locationOf('source'),
        (copy) => driver().import(locationOf('next'), copy, { signal: never() }),
        {
          signal: never(),
        },
      )
      await expectOthersGoOn('imports')
      await exported(driver(), locationOf('source'))
      expect(startedCopies()).toBe(COPIES)
      abort.abort(gone)
      expect(await rejected).toEqual(Array(MANY).fill({ status: 'rejected', reason: gone }))
      end()
      await Promise.all([...importing, next])
    })

    test('exports that are imported directly do not block each other', async () => {
      const moved = Array.from({ length: 3 * COPIES }, (_, n) =>
        driver().export(
          locationOf('source'),
          (copy) => driver().import(locationOf(`moved-${n}`), copy, { signal: never() }),
          {
            signal: never(),
          },
        ),
      )
      expect(await Promise.all(moved)).toHaveLength(3 * COPIES)
    })
  })
}
