/** Tests that no row of billing mentions a purged tenant. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import {
  openWith,
  purgesDuringWork,
  receivedOf,
  sendUsage,
  TABLES,
  tablesContaining,
  track,
} from './tenant-deletion.fixture.ts'

describe.each(['cancel', 'detach', 'preserve'] as const)('a purge, with %s', (onTenantDelete) => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith(onTenantDelete)
  })
  afterAll(() => open.end())

  test('a purge leaves no row of the tenant, and later events have no effect', async () => {
    const payer = await open.subscriber()
    await track(open, payer, 5)
    await open.tenancy.billing.windows.close()
    open.provider.setPaymentMethod(payer.customerId, 'declines')
    open.provider.advance({ days: 31, hours: 2 })
    await open.deliverAndProcess()
    expect(new Set(await tablesContaining(open, payer.tenantId, payer.customerId))).toEqual(
      new Set(TABLES.filter((table) => !['billing_health', 'billing_metered_quotas'].includes(table))),
    )
    await open.tenancy.tenants.delete(payer.tenantId)
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    expect(await tablesContaining(open, payer.tenantId, payer.customerId)).toEqual([])
    expect(open.log.join()).toContain('unreported usage was deleted with its purged tenant')

    await open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    open.receivedEvents.splice(0)
    await open.deliverAndProcess()
    open.provider.deleteCustomer(payer.customerId)
    await open.deliverAndProcess()
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    expect(receivedOf(open, payer)).toEqual([])
    const left = await tablesContaining(open, payer.tenantId, payer.customerId)
    expect(left.filter((table) => table !== 'billing_inbox')).toEqual([])
    await sendUsage(open)
    await expect(open.tenancy.billing.of(payer.tenantId)).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    expect(await Array.fromAsync(open.tenancy.billing.sync.run(payer.tenantId))).toEqual([])
  })

  test('a purge while an event is processed and usage is closed leaves no row of the tenant', async () => {
    await purgesDuringWork(open, async (purge, respond) => {
      await purge()
      respond()
    })
  })
})
