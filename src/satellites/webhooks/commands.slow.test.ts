import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Child, programWith } from '../../cli/program.fixture.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { openCommands } from './commands.fixture.ts'
import { deliveriesOf } from './webhooks-api.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const fixture = openCommands(programWith)
const { working, dispatch, subscribe, ids } = fixture
beforeEach(fixture.begin)
afterEach(async () => {
  await fixture.tenantry.killAll()
  await fixture.finish()
})

async function interrupt(child: Child) {
  child.process.kill('SIGINT')
  return child.ended
}

describe('tenant:webhooks:listen', () => {
  async function listening() {
    const child = fixture.tenantry.start([
      'tenant:webhooks:listen',
      fixture.id,
      '--forward',
      `${fixture.receiver.url}/hooks`,
    ])
    await child.says(/signed with (\S+)\n/)
    return child
  }

  test('ends a minute after its process is killed', async () => {
    const clock = fakeClock(new Date())
    const later = await fixture.opened.open({ clock })
    const child = await listening()
    child.process.kill('SIGKILL')
    await child.ended
    clock.set(new Date())
    const [deliveryId = ''] = await later.webhooks.dispatch(fixture.id, 'order.paid', {})
    const { rows } = await fixture.tenancy.kernel.database.sql(
      'select webhook_id as "webhookId" from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    clock.set(new Date(Date.now() + 61_000))
    expect(await later.webhooks.dispatch(fixture.id, 'order.paid', {})).toEqual([])
    await later.webhooks.retry()
    const left = await deliveriesOf(fixture.tenancy, fixture.id, rows[0].webhookId)
    expect(left).toMatchObject([{ id: deliveryId, state: 'failed', attemptCount: 0 }])
    expect(fixture.receiver.received).toEqual([])
  })
})

describe('tenant:webhooks:tail', () => {
  test('exits without an error when its output is closed', async () => {
    await subscribe()
    await dispatch()
    await fixture.tenancy.webhooks.retry()
    const child = fixture.tenantry.start(['tenant:webhooks:tail', fixture.id, '--since', '5'])
    await child.says(/attempt 1/)
    child.process.stdout.destroy()
    await dispatch()
    await fixture.tenancy.webhooks.retry()
    expect(await child.ended).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('tenant:webhooks:retry', () => {
  const MANY = 200

  async function sent(child: Child): Promise<number> {
    const { code, stdout, stderr } = await child.ended
    expect({ code, stderr }, stderr).toEqual({ code: 0, stderr: '' })
    return JSON.parse(stdout).sent
  }

  test('sends each delivery once in two concurrent runs with a worker', async () => {
    const { webhookId } = await subscribe()
    const dispatched = (await Promise.all(Array.from({ length: MANY }, () => dispatch()))).flat()
    const two = [0, 1].map(() => fixture.tenantry.start(['tenant:webhooks:retry', '--json']))
    await eventually(() => expect(fixture.receiver.received.length).toBeGreaterThan(0), 30_000)
    await working()
    const [first = 0, second = 0] = await Promise.all(two.map(sent))
    await eventually(() => expect(fixture.receiver.received).toHaveLength(MANY))
    expect(first + second).toBeLessThanOrEqual(MANY)
    expect(ids().toSorted()).toEqual(dispatched.toSorted())
    await eventually(async () => {
      const all = await deliveriesOf(fixture.tenancy, fixture.id, webhookId)
      expect(all.filter(({ state, attemptCount }) => state === 'delivered' && attemptCount === 1)).toHaveLength(MANY)
    })
  })

  test('releases unsent deliveries when it is interrupted', async () => {
    fixture.receiver.respondWith(() => undefined)
    const { webhookId } = await subscribe()
    for (let n = 0; n < 20; n++) await dispatch()
    const child = fixture.tenantry.start(['tenant:webhooks:retry'])
    await eventually(() => expect(fixture.receiver.received.length).toBe(16), 30_000)
    expect((await interrupt(child)).code).toBe(130)
    const states = (await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).map(({ state }) => state)
    expect(states.filter((state) => state === 'pending').length).toBeGreaterThanOrEqual(4)
  })

  test('does not count aborted requests as sent', async () => {
    await subscribe()
    fixture.receiver.respondWith(() => (fixture.receiver.received.length === 1 ? {} : undefined))
    await dispatch()
    await dispatch()
    const { webhooks } = await fixture.opened.open({ role: 'api' })
    const retrying = webhooks.retry()
    await eventually(() => expect(fixture.receiver.received).toHaveLength(2))
    await webhooks.stop()
    expect(await retrying).toBe(1)
  })
})
