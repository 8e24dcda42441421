/** Metrics of tenants that are unknown, deleted or purged. */
import { describe, expect, test } from 'vitest'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { DAY_MS } from '../../kernel/store/counters.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { metricsOn, STORES } from './metrics.fixture.ts'

const NOT_FOUND = { code: 'E_TENANT_NOT_FOUND', status: 404 }

describe.each(STORES)('metrics of a tenant on the store %s', (store) => {
  const fixture = metricsOn(store)
  const { date, read, rows } = fixture

  test.each([
    ['that does not exist', () => 'unknown'],
    ['with a malformed id', () => 'No Id'],
  ])('rejects a tenant %s, and leaves no rows', async (_, id) => {
    await expect(fixture.metrics.increment(id(), 'exports')).rejects.toMatchObject(NOT_FOUND)
    await expect(fixture.metrics.list(id())).rejects.toMatchObject(NOT_FOUND)
    await expect(fixture.metrics.export(id(), 'csv')).rejects.toMatchObject(NOT_FOUND)
    expect(await fixture.opened.tenancy.kernel.store.sums.read(id(), [date()])).toEqual([])
  })

  test('a deleted tenant counts nothing more, and its metrics stay readable', async () => {
    await fixture.metrics.increment(fixture.acme, 'exports', 3)
    await fixture.opened.tenancy.tenants.delete(fixture.acme)
    await expect(fixture.metrics.increment(fixture.acme, 'exports')).rejects.toMatchObject(NOT_FOUND)
    await fixture.metrics.flush()
    expect(await read()).toEqual({ [`${date()} exports`]: 3 })
  })

  test("a purge removes exactly the tenant's metrics, and a flush does not restore them", async () => {
    const { tenancy } = fixture.opened
    const other = await fixture.tenant()
    const { id } = await tenancy.tenants.create({ id: `gone-${uuidv7().slice(-12)}`, name: 'Gone' })
    await tenancy.kernel.database.sql(`update multitenancy.tenants set status = 'active' where id = $1`, [id])
    for (const tenant of [id, other]) await fixture.metrics.increment(tenant, 'exports', 3)
    await fixture.metrics.flush()
    await fixture.metrics.increment(id, 'exports', 4)
    await tenancy.tenants.delete(id)
    fixture.clock.advance(31 * DAY_MS)
    const [before] = await rows(other)
    expect(await tenancy.tenants.installation.purge(id)).toBe(true)
    await fixture.metrics.flush()
    expect(await rows(id)).toEqual([])
    expect(await rows(other)).toEqual([before])
    fixture.metrics.traffic.requestEnded(id, 200, 1) // a request in flight
    await fixture.metrics.flush()
    expect(await rows(id)).toEqual([])
    await expect(fixture.metrics.list(id)).rejects.toMatchObject(NOT_FOUND)
  })

  test('a flush waits for a concurrent purge, and leaves no rows', async () => {
    const { database } = fixture.opened.tenancy.kernel
    await fixture.metrics.increment(fixture.acme, 'exports', 3)
    await fixture.opened.tenancy.tenants.delete(fixture.acme)
    let flushed: Promise<unknown> | undefined
    await database.transaction(async () => {
      await database.sql('update multitenancy.tenants set purged_at = now() where id = $1', [fixture.acme])
      flushed = database.outside(() => fixture.metrics.flush())
      await eventually(async () => {
        const { rows } = await database.outside(() =>
          database.sql(
            `select count(*) as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          ),
        )
        expect(rows[0].waiting).toBe(1)
      })
    })
    await flushed
    expect(await rows()).toEqual([])
  })
})
