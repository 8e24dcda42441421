/** Daily alerts in a rolled-back transaction, with a failing listener, and over midnight. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DependencyDegraded } from '../../kernel/resilience/resilience.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { QuotaThresholdReached, QuotaTracked, TenantQuotaExceeded } from './events.ts'
import type { quotas as satellite } from './index.ts'
import { openQuotas, type QuotasOpened } from './quotas.fixture.ts'

type QuotasTenancy = Tenancy<[ReturnType<typeof satellite>]>

let all: QuotasOpened
let tenancy: QuotasTenancy
let acme: string

beforeAll(async () => {
  all = await openQuotas('postgres')
  tenancy = all.opened.tenancy
})
beforeEach(async () => {
  acme = await all.tenant()
})
afterAll(() => all.opened.end())

const rowsOf = async (tenantId: string): Promise<string[]> => {
  const { rows } = await tenancy.kernel.database.sql(
    'select kind from multitenancy.quota_alerts where tenant_id = $1 order by kind',
    [tenantId],
  )
  return rows.map(({ kind }) => kind)
}

describe('an alert', () => {
  test('an alert and its count survive the rollback of the calling transaction', async () => {
    const published: string[] = []
    const ends = [
      tenancy.on(QuotaThresholdReached, ({ tenantId, threshold }) => {
        if (tenantId === acme) published.push(`${threshold} %`)
      }),
      tenancy.on(QuotaTracked, ({ tenantId, usage }) => {
        if (tenantId === acme) published.push(`tracked ${usage}`)
      }),
    ]
    const refused = tenancy.transaction(async () => {
      await tenancy.quotas.consume(acme, 'exports', 9)
      throw new Error('no')
    })
    await expect(refused).rejects.toThrow('no')
    await eventually(() => expect(published.toSorted()).toEqual(['80 %', 'tracked 9']))
    expect(await rowsOf(acme)).toEqual(['80'])
    for (const end of ends) end()
  })

  test('an alert has the request id of its call', async () => {
    const ids: (string | null)[] = []
    const end = tenancy.on(TenantQuotaExceeded, ({ tenantId, requestId }) => {
      if (tenantId === acme) ids.push(requestId)
    })
    const { headers } = await all.call('POST', `/tenants/${acme}/quotas/none/consume`, {})
    await eventually(() => expect(ids).toEqual([headers.get('x-request-id')]))
    end()
  })

  test('a failing listener of an alert does not fail the call', async () => {
    const { events } = tenancy.kernel
    const end = events.subscribe(QuotaTracked, 'within', ({ tenantId }) => {
      if (tenantId === acme) throw new Error('the usage report is full')
    })
    expect(await tenancy.quotas.consume(acme, 'exports', 3)).toBe(3)
    end()
    expect(await tenancy.quotas.getUsage(acme, 'exports')).toBe(3)
  })

  test('alerts are removed with their tenant, and two days later at the next alert', async () => {
    const { database } = tenancy.kernel
    await tenancy.quotas.track(acme, 'exports', 10)
    await tenancy.quotas.alerts.settled()
    expect(await rowsOf(acme)).toEqual(['100', '80'])
    await database.sql(`update multitenancy.quota_alerts set day = day - 3 where tenant_id = $1`, [acme])
    const other = await all.tenant()
    await tenancy.quotas.track(other, 'exports', 8)
    await tenancy.quotas.alerts.settled()
    expect([await rowsOf(acme), await rowsOf(other)]).toEqual([[], ['80']])
    await tenancy.tenants.delete(other)
    await database.sql(`update multitenancy.tenants set purge_at = now() - interval '1 day' where id = $1`, [other])
    await tenancy.tenants.installation.purge(other)
    expect(await rowsOf(other)).toEqual([])
  })

  test("an alert of a gauge has the store's day, too", async () => {
    await tenancy.quotas.setUsage(acme, 'seats', 3)
    await tenancy.quotas.alerts.settled()
    all.toTomorrow()
    await tenancy.quotas.setUsage(acme, 'seats', 3)
    await tenancy.quotas.alerts.settled()
    const { rows } = await tenancy.kernel.database.sql(
      `select count(distinct day) as days, count(*) as alerts from multitenancy.quota_alerts where tenant_id = $1`,
      [acme],
    )
    expect(rows).toEqual([{ days: 2, alerts: 4 }])
  })
})

test('the event of a degraded dependency is published although the transaction is rolled back', async () => {
  const { resilience } = tenancy.kernel
  const published: string[] = []
  const end = tenancy.on(DependencyDegraded, ({ operation }) => void published.push(operation))
  const refused = tenancy.transaction(async () => {
    resilience.report({ dependency: 'redis', operation: 'a test', tenantId: null, policy: 'fail-open', errorCode: 'E' })
    throw new Error('no')
  })
  await expect(refused).rejects.toThrow('no')
  await eventually(() => expect(published).toEqual(['a test']))
  end()
})
