/** The report of an erasure counts rows of shared tables once, also beside a purge and in adopted tables. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { raw } from '../../testing/leak/operations.ts'
import { openRowTenancy, REQUEST } from '../adoption/row-adoptions.fixture.ts'

const signal = AbortSignal.timeout(120_000)
const NOTES = {
  name: '0001_notes',
  checksum: '1',
  up: 'create table notes (tenant_id text not null default tenantry.current_tenant(), body text)',
}

let opened: TestTenancy<[]>
const tenants = () => opened.tenancy.tenants
const sql = async (text: string, values: unknown[] = []) =>
  (await opened.tenancy.kernel.database.sql(text, values)).rows

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), {
    role: 'api',
    migrations: [NOTES],
    isolation: [rowscopePg()],
    clock: fakeClock(), // a purge and a request at the same time
  })
})
afterAll(() => opened.end())

/** A deleted tenant with two rows, which a purge may remove. */
async function deleted(id: string): Promise<void> {
  await tenants().create({ id, name: id })
  await tenants().installation.install(id, { isLast: true })
  await raw((await tenants().handle(id)).db, `insert into notes (body) values ('one'), ('two')`)
  await tenants().delete(id)
  await sql('update multitenancy.tenants set purge_at = created_at where id = $1', [id])
}
const request = (id: string) => tenants().erasures.request(id, { confirm: id, reason: 'request 4711' })
const work = (id: string, onStep?: (name: string, state: string) => unknown) =>
  tenants().erasures.work(id, { signal, onStep })
const linesOf = async (id: string, { erasures } = tenants()) => {
  const { state, report } = await erasures.get(id)
  const lines = report?.systems.filter(({ system }) => system === 'placements')
  return { state, lines: lines?.map(({ kind, found, removed }) => [kind, found, removed]) }
}
const BOTH = { state: 'completed', lines: [['main: tenantry_rows.notes', 2, 2]] }

describe('the report of an erasure', () => {
  test('without a purge has the rows', async () => {
    await deleted('plain')
    await request('plain')
    await work('plain')
    expect(await linesOf('plain')).toEqual(BOTH)
  })

  test('has the rows that a purge deletes after the first search', async () => {
    await deleted('purging')
    let purging: Promise<boolean> | undefined
    await opened.tenancy.kernel.database.session(async (client) => {
      await client.query(`begin; select from tenantry.row_locations where tenant = 'purging' for update`)
      purging = tenants().installation.purge('purging')
      await eventually(async () =>
        expect(
          await sql(`select from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0
            and datname = current_database()`),
        ).toHaveLength(1),
      )
      await request('purging')
      await work('purging', async (name, state) => {
        if (name !== 'placements' || state !== 'found') return
        await client.query('commit')
        await purging
      })
    })
    expect(await linesOf('purging')).toEqual(BOTH)
  })

  test('has the rows once if a purge was killed before it has deleted them', async () => {
    await deleted('killed')
    await sql('update multitenancy.tenants set purge_started_at = deleted_at where id = $1', ['killed'])
    await request('killed')
    await work('killed')
    expect(await linesOf('killed')).toEqual(BOTH)
  })

  test('has rows of adopted tables that the former application writes after the removal, which are deleted', async () => {
    const here = await openRowTenancy()
    try {
      await here.create()
      const { adoptions, erasures } = here.opened.tenancy.tenants
      await adoptions.tables.adopt({ ...REQUEST, digest: await here.digest() })
      await erasures.request('2', { confirm: '2', reason: 'request 4711' })
      let isWritten = false
      const onStep = async (name: string, state: string) => {
        if (isWritten || name !== 'placements' || state !== 'removed') return
        isWritten = true
        await here.sql(`insert into app.notes (org_id, body) values (2, 'late'), (2, 'later')`)
      }
      await erasures.work('2', { signal, onStep })
      expect(await linesOf('2', here.opened.tenancy.tenants)).toEqual({
        state: 'completed',
        lines: [['main: app.notes', 3, 3]],
      })
      expect(await here.sql('select body from app.notes order by id')).toEqual([{ body: 'of 1' }, { body: 'of 3' }])
    } finally {
      await here.end()
    }
  })
})
