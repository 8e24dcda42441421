/** Response of the admin API to a checkout that fails open. */
import { expect, inject, onTestFinished, test } from 'vitest'
import { openBilling } from '../../src/satellites/billing/billing.fixture.ts'

test('a checkout returns 201 with the cancel URL and without an id while the provider is unavailable', async () => {
  const open = await openBilling(inject('postgresUrl'), {
    config: { resilience: { provider: { checkout: 'fail-open' } } },
  })
  onTestFinished(open.end)
  const urls = { successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }
  const path = `/tenants/${await open.tenant()}/billing/checkout`
  const checkout = () => open.call('POST', path, { priceId: open.prices.pro, ...urls })

  await open.provider.down()
  expect(await checkout()).toMatchObject({ status: 201, json: { url: urls.cancelUrl, id: null } })
  await open.provider.up()
  expect(await checkout()).toMatchObject({ status: 201, json: { id: expect.any(String) } })
})
