/** Large bodies that wait for memory of the worker. */
import { expect, inject, onTestFinished, test } from 'vitest'
import { startReceiver } from '../../../../test/support/receiver.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { openWebhooks } from '../webhooks.fixture.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'

test('large bodies that wait for memory do not delay the deliveries of other tenants', async () => {
  const receiver = await startReceiver(({ path }) => (path === '/large' ? undefined : {}))
  const options = { bridge: false, perSubscription: 128, perTenant: 128 }
  const opened = await openWebhooks(inject('postgresUrl'), options, { role: 'api' })
  onTestFinished(async () => {
    await receiver.close()
    await opened.end()
  })
  const { webhooks } = opened.tenancy
  const subscribed = async (path: string) => {
    const id = await activeTenant(opened.tenancy)
    await webhooks.create(id, { url: receiver.url + path, events: ['order.*'] })
    return id
  }
  const at = (path: string) => receiver.received.filter((received) => received.path === path)
  const [large, good] = [await subscribed('/large'), await subscribed('/good')]
  const body = { text: 'x'.repeat(1_000_000) }
  for (let n = 0; n < 96; n++) await webhooks.dispatch(large, 'order.paid', body)
  await opened.open({ role: 'worker' })
  await eventually(() => expect(at('/large').length).toBeGreaterThan(60), 60_000)
  await webhooks.dispatch(good, 'order.paid', {})
  await eventually(() => expect(at('/good')).toHaveLength(1), 60_000)
  expect(at('/large').length).toBeLessThan(96)
}, 180_000)
