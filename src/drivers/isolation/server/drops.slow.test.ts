/** Tests drops concurrent with other work on the same storage, which is running, blocked, or starts after the drop. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { type BufferedCopy, exported, never, replayed } from '../copy/copy.fixture.ts'
import { stagingSchemaOf } from '../copy/copy-in-shared.ts'
import {
  type CopyFixture,
  KINDS,
  type Kind,
  locationFor,
  openCopyFixture,
  withOwner,
} from '../copy/copy-storage.fixture.ts'
import { lockOf } from '../transactions/owner-transaction.ts'
import { PostgresServer } from './postgres-server.ts'
import { dropDatabase } from './tenant-database.ts'

const NOTES = [
  {
    name: '0001_notes',
    checksum: '1',
    up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
  },
]
const OWN_STORAGE = ['schema-pg', 'database-pg'] as const
/** The first lock of an import or a provision. */
const LOCKS: Readonly<Record<Kind, (locator: string) => string>> = {
  'schema-pg': lockOf,
  'rowscope-pg': (locator) => lockOf(stagingSchemaOf(locator)),
  'database-pg': (locator) => `hashtextextended(${pg.escapeLiteral(locator)}, 3)`,
}

let fixture: CopyFixture
let others: CopyFixture['drivers']
let held: BufferedCopy
beforeAll(async () => {
  fixture = await openCopyFixture(inject('postgresUrl'), { migrations: NOTES })
  others = await anotherProcess(fixture)
  await filled('source')
  held = await exported(fixture.drivers['schema-pg'], locationOf('schema-pg', 'source'))
})
afterAll(() => fixture.end())

async function anotherProcess({ installation, makers }: CopyFixture): Promise<CopyFixture['drivers']> {
  const placement = await installation.prepare()
  const open = (kind: Kind) => installation.open(placement, { driver: () => makers[kind](), migrations: NOTES })
  return {
    'schema-pg': await open('schema-pg'),
    'database-pg': await open('database-pg'),
    'rowscope-pg': await open('rowscope-pg'),
  }
}

/** A copy that blocks before a table, or within its rows, until `goOn` is called. */
function hanging(where: 'before the rows' | 'in the rows') {
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const hang = async () => {
    reached.resolve()
    await released.promise
  }
  const copy: TenantCopy = {
    ...replayed(held),
    async *tables() {
      if (where === 'before the rows') await hang()
      for await (const { table, csv } of replayed(held).tables()) {
        const rows = async function* () {
          yield* csv
          if (where === 'in the rows') await hang()
        }
        yield { table, csv: rows() }
      }
    },
  }
  return { copy, reached: reached.promise, goOn: () => released.resolve() }
}

const locationOf = (kind: Kind, id: string) => locationFor(fixture, kind, id)
const sql = async (text: string) => (await fixture.installation.database.sql(text)).rows
async function filled(id: string, kind: Kind = 'schema-pg'): Promise<void> {
  await fixture.drivers[kind].provision(locationOf(kind, id))
  await directHandle(fixture.drivers[kind], locationOf(kind, id)).pool.query('insert into notes (id) values (1), (2)')
}

/** Whether storage exists, even if no tenant can reach it. */
async function isThere(at: StorageLocation): Promise<boolean> {
  if (at.isolation === 'rowscope-pg') {
    const [{ rows }] = await sql(
      `select count(*)::int as rows from tenantry_rows.notes where tenant_id = '${at.locator}'`,
    )
    return rows > 0
  }
  const stored = await fixture.drivers[at.isolation as Kind].inventory?.('main')
  return stored?.some(({ locator }) => locator === at.locator) ?? false
}

/** Holds a lock until the returned function is called. */
async function holding(lock: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: fixture.installation.url, application_name: 'tenantry ddl' })
  await client.connect()
  await client.query(`select pg_advisory_lock(${lock})`)
  return () => client.end()
}
const waiting = (count: number) =>
  eventually(async () => {
    const rows = await sql(`select from ${WAITING_LOCKS} where locktype = 'advisory'`)
    expect(rows).toHaveLength(count)
  })

describe('a drop concurrent with blocked work', () => {
  const importing = async (kind: Kind, id: string) => {
    const at = locationOf(kind, id)
    const { copy, reached, goOn } = hanging('before the rows')
    const imported = fixture.drivers[kind].import(at, copy, { signal: never() })
    await reached
    return {
      at,
      end: async () => {
        goOn()
        await imported
      },
    }
  }
  const holdingOf = async (id: string, lock: (locator: string) => string) => {
    await filled(id, 'database-pg')
    const at = locationOf('database-pg', id)
    return { at, end: await holding(lock(at.locator)) }
  }

  test('fails after a timeout with the holder of the storage, and can be repeated', async () => {
    const stuck = await Promise.all([
      importing('schema-pg', 'hanging'),
      importing('rowscope-pg', 'hanging'),
      holdingOf('made', LOCKS['database-pg']),
      holdingOf('opened', lockOf),
    ])
    const drop = (at: StorageLocation) => others[at.isolation as Kind].drop(at)
    expect(await Promise.allSettled(stuck.map(({ at }) => drop(at)))).toMatchObject(
      Array(4).fill({
        reason: {
          code: 'E_DEPENDENCY_UNAVAILABLE',
          message: expect.stringMatching(/in use by another process since \d{4}/),
          cause: { message: expect.stringContaining('(tenantry ddl, ') },
        },
      }),
    )
    for (const { at, end } of stuck) {
      await end()
      expect(await isThere(at)).toBe(true)
      await drop(at)
      expect(await isThere(at)).toBe(false)
    }
  })

  test('ends the work in a database of one tenant', async () => {
    const at = locationOf('database-pg', 'hanging')
    const { copy, reached, goOn } = hanging('before the rows')
    const imported = fixture.drivers['database-pg'].import(at, copy, { signal: never() }).catch((error) => error)
    await reached
    await others['database-pg'].drop(at)
    goOn()
    expect(await imported).toBeInstanceOf(Error)
    expect(await isThere(at)).toBe(false)
  })

  test('does not wait for a copy in another database that blocks the server', async () => {
    await filled('apart', 'database-pg')
    const at = locationOf('database-pg', 'apart')
    const { copy, reached, goOn } = hanging('in the rows')
    const imported = fixture.drivers['schema-pg'].import(locationOf('schema-pg', 'slow'), copy, { signal: never() })
    await reached
    const server = PostgresServer.of(await fixture.installation.prepare(), createLogger({ level: 'silent' }))
    const failure = await dropDatabase(server, at.locator, { withinMs: 300 }).catch((error) => error)
    goOn()
    await imported
    expect(failure).toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
      message: expect.stringContaining('tried again'),
      cause: { message: expect.stringContaining('(tenantry ddl)') },
    })
    const shown = await server.owned((client) => client.query('show statement_timeout'))
    expect(shown.rows).toEqual([{ statement_timeout: '0' }])
    await server.close()
    expect(await isThere(at)).toBe(true)
    await fixture.drivers['database-pg'].drop(at)
    expect(await isThere(at)).toBe(false)
  })

  test('of one tenant does not wait for another tenant’s import into shared tables', async () => {
    await filled('leaving', 'rowscope-pg')
    const { at, end } = await importing('rowscope-pg', 'coming')
    await others['rowscope-pg'].drop(locationOf('rowscope-pg', 'leaving'))
    expect(await isThere(locationOf('rowscope-pg', 'leaving'))).toBe(false)
    await end()
    expect(await isThere(at)).toBe(true)
  })
})

describe('a drop concurrent with creation of the storage', () => {
  const gone = new Error('the storage was abandoned')
  const makings = {
    import: (driver: IsolationDriver, at: StorageLocation, assertNotAbandoned: () => Promise<void>) =>
      driver.import(at, replayed(held), { signal: never(), assertNotAbandoned }),
    provision: (driver: IsolationDriver, at: StorageLocation, assertNotAbandoned: () => Promise<void>) =>
      driver.provision(at, { assertNotAbandoned }),
  }
  const cases = [
    ...KINDS.map((kind) => ['import', kind] as const),
    ...OWN_STORAGE.map((kind) => ['provision', kind] as const),
  ]

  test.each(cases)('leaves nothing: %s by %s after the drop finds the storage abandoned', async (what, kind) => {
    const at = locationOf(kind, 'late')
    let isAbandoned = false
    const release = await holding(LOCKS[kind](at.locator))
    const dropping = others[kind].drop(at)
    await waiting(1)
    const made = makings[what](fixture.drivers[kind], at, async () => {
      if (isAbandoned) throw gone
    }).catch((error) => error)
    await waiting(2)
    isAbandoned = true
    await release()
    await dropping
    expect(await made).toBe(gone)
    expect(await isThere(at)).toBe(false)
  })

  test.each(cases)('leaves nothing: %s by %s before the drop is removed by it', async (what, kind) => {
    const at = locationOf(kind, 'early')
    let dropping: Promise<void> | undefined
    const making = makings[what](fixture.drivers[kind], at, async () => {
      dropping = others[kind].drop(at) // the check has passed before the drop, and nothing has been created yet
      await waiting(1)
    })
    await making.catch((error) => expect(kind, error).toBe('database-pg')) // the database is dropped during the work
    await dropping
    expect(await isThere(at)).toBe(false)
  })

  test('leaves nothing while others copy the template', async () => {
    const at = locationOf('database-pg', 'queued')
    const release = await holding(`hashtextextended('template0', 2)`)
    const making = fixture.drivers['database-pg'].provision(at).catch((error) => error)
    await waiting(1)
    const dropping = others['database-pg'].drop(at)
    await waiting(2)
    await release()
    await dropping
    expect(await making).toBeInstanceOf(Error)
    expect(await isThere(at)).toBe(false)
  })
})

test.each(['schema-pg', 'rowscope-pg'] as const)(
  'an import by %s that waits for the storage ends when it is aborted, while another process holds the storage',
  async (kind) => {
    const at = locationOf(kind, 'waiting')
    const release = await holding(LOCKS[kind](at.locator))
    const abort = new AbortController()
    const reason = new Error('no longer required')
    const imported = fixture.drivers[kind].import(at, replayed(held), { signal: abort.signal }).catch((error) => error)
    await waiting(1)
    abort.abort(reason)
    expect(await imported).toBe(reason)
    await release()
    expect(await isThere(at)).toBe(false)
  },
)

test('concurrent drops succeed although the policies of the owner must be restored', async () => {
  await withOwner(inject('postgresUrl'), async (ownerUrl) => {
    const theirs = await openCopyFixture(inject('postgresUrl'), { migrations: NOTES, ownerUrl })
    try {
      const drivers = [theirs.drivers['rowscope-pg'], (await anotherProcess(theirs))['rowscope-pg']]
      const { database } = theirs.installation
      for (let round = 0; round < 5; round++) {
        for (const id of ['one', 'two'])
          await theirs.drivers['rowscope-pg'].provision(locationFor(theirs, 'rowscope-pg', id))
        await database.sql(`do $$ declare name text; begin
          for name in select polname from pg_policy where polname like 'tenantry_owner%' loop
            execute format('drop policy %I on tenantry_rows.notes', name);
          end loop; end $$`)
        const dropping = ['one', 'two'].map((id, n) => drivers[n]?.drop(locationFor(theirs, 'rowscope-pg', id)))
        expect(await Promise.allSettled(dropping)).toMatchObject(Array(2).fill({ status: 'fulfilled' }))
      }
    } finally {
      await theirs.end()
    }
  })
})
