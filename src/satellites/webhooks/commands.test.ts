import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { inProcess, type Run } from '../../cli/in-process.fixture.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { openCommands } from './commands.fixture.ts'
import { verifyWebhook } from './verify.ts'
import { activeTenant, deliveriesOf } from './webhooks-api.fixture.ts'

const fixture = openCommands(inProcess)
const { working, dispatch, subscribe, ids } = fixture
afterAll(() => fixture.tenantry?.close())

describe('with a receiver', () => {
  beforeEach(fixture.begin)
  afterEach(fixture.finish)
  describe('tenant:webhooks:listen', () => {
    async function listening(options: readonly string[] = [], isAlone = false) {
      const line = ['tenant:webhooks:listen', fixture.id, '--forward', `${fixture.receiver.url}/hooks`, ...options]
      const child = fixture.tenantry.start(line, { isAlone })
      const [, secret = ''] = await child.says(/signed with (\S+)\n/)
      return { child, secret }
    }

    test('forwards dispatched events, signed with the printed secret, until Ctrl-C', async () => {
      const worker = await working()
      const { child, secret } = await listening()
      expect(secret).toMatch(/^whsec_/)
      const [deliveryId = ''] = await dispatch('order.paid', { amount: 12.5, name: 'Ünï' })
      await child.says(new RegExp(`order\\.paid  ${deliveryId}  attempt 1: 200 in \\d+ ms, delivered`))
      const [{ path, headers, body } = { path: '', headers: {}, body: '' }] = fixture.receiver.received
      expect(path).toBe('/hooks')
      expect(verifyWebhook(body, headers, secret)).toMatchObject({
        id: deliveryId,
        event: 'order.paid',
        payload: { amount: 12.5, name: 'Ünï' },
      })
      for (const { webhooks } of [worker, fixture.tenancy]) {
        expect((await webhooks.list(fixture.id, { limit: 50 })).data).toEqual([])
      }

      const { code, stdout, stderr } = await child.interrupt()
      expect(code).toBe(130)
      expect(stdout).toMatch(/^\S+Z {2}order\.paid .*\n$/)
      expect(stderr).toMatch(/^Events of .*\nPress Ctrl-C to end\.\nThe subscription has ended\. .*\ninterrupted\n$/m)
      expect(await dispatch()).toEqual([])
      expect(ids()).toEqual([deliveryId])
    })

    test('forwards only the named events, signed with the given secret', async () => {
      const given = 'a-secret-of-a-developer'
      const { child, secret } = await listening(['--events', 'order.*,invoice.paid', '--secret', given])
      expect(secret).toBe(given)
      expect(await dispatch('orders.paid')).toEqual([])
      expect(await dispatch('invoice.sent')).toEqual([])
      await dispatch('invoice.paid')
      await dispatch('order.placed')
      await eventually(() => expect(fixture.receiver.received).toHaveLength(2))
      for (const { body, headers } of fixture.receiver.received)
        expect(verifyWebhook(body, headers, given).id).not.toBe('')
      expect((await child.interrupt()).code).toBe(130)
    })

    test('exits immediately while a receiver does not respond', async () => {
      fixture.receiver.respondWith(() => undefined)
      const { child } = await listening([], true)
      await dispatch()
      await eventually(() => expect(fixture.receiver.received).toHaveLength(1))
      const { code, stdout, stderr } = await child.interrupt()
      expect({ code, stdout }).toEqual({ code: 130, stdout: '' })
      expect(stderr).toContain('The subscription has ended')
      expect(await dispatch()).toEqual([])
    })

    test('is rejected for a deleted tenant', async () => {
      await fixture.tenancy.tenants.delete(fixture.id)
      const { code } = await fixture.tenantry.run(
        'tenant:webhooks:listen',
        fixture.id,
        '--forward',
        fixture.receiver.url,
      )
      expect(code).toBe(5)
    })
  })

  describe('tenant:webhooks:tail', () => {
    test('shows attempts of other processes once, until Ctrl-C', async () => {
      await working()
      await subscribe()
      fixture.receiver.respondWith(({ body }) => ({ status: JSON.parse(body).n === 7 ? 404 : 200 }))
      const child = fixture.tenantry.start(['tenant:webhooks:tail', fixture.id, '--json', '--since', '5m'])
      const dispatched: (string | undefined)[] = []
      for (let n = 0; n < 20; n++) dispatched.push((await dispatch('order.paid', { n }))[0])
      await child.says(new RegExp(`(?:.*"deliveryId".*\\n){${dispatched.length}}`))
      const { code, stdout } = await child.interrupt()
      expect(code).toBe(130)
      const shown = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      expect(shown.map(({ deliveryId }) => deliveryId).toSorted()).toEqual(dispatched.toSorted())
      const outcomes = Map.groupBy(shown, ({ status, state }) => `${status} ${state}`)
      expect([...outcomes].map(([outcome, { length }]) => [outcome, length]).toSorted()).toEqual([
        ['200 delivered', 19],
        ['404 retry_scheduled', 1],
      ])
    })

    test('shows attempts of the last hour, or since the given time, and exits with --once', async () => {
      await subscribe()
      fixture.receiver.respondWith(() => ({ status: 500 }))
      const [deliveryId = ''] = await dispatch()
      await fixture.tenancy.webhooks.retry()
      const line = new RegExp(`^\\S+Z  order\\.paid  ${deliveryId}  attempt 1: 500 in \\d+ ms, retry_scheduled\\n$`)
      expect(await fixture.tenantry.run('tenant:webhooks:tail', fixture.id, '--once')).toEqual({
        code: 0,
        stdout: expect.stringMatching(line),
        stderr: '',
      })
      await fixture.tenancy.kernel.database.sql(
        `update multitenancy.webhook_attempts set started_at = started_at - interval '2 hours'`,
      )
      expect((await fixture.tenantry.run('tenant:webhooks:tail', fixture.id, '--once')).stdout).toBe('')
      expect(
        (await fixture.tenantry.run('tenant:webhooks:tail', fixture.id, '--once', '--since', '121')).stdout,
      ).toMatch(line)
    })
  })

  describe('tenant:webhooks:retry', () => {
    async function sent(child: Run): Promise<number> {
      const { code, stdout, stderr } = await child.ended
      expect({ code, stderr }, stderr).toEqual({ code: 0, stderr: '' })
      return JSON.parse(stdout).sent
    }

    test('sends due deliveries only', async () => {
      const { webhookId } = await subscribe()
      fixture.receiver.respondWith(() => ({ status: 503, headers: { 'retry-after': '20' } }))
      await dispatch()
      await fixture.tenancy.webhooks.retry()
      fixture.receiver.respondWith(() => ({}))
      await dispatch()
      expect(await sent(fixture.tenantry.start(['tenant:webhooks:retry', '--json']))).toBe(1)
      expect(await sent(fixture.tenantry.start(['tenant:webhooks:retry', '--json']))).toBe(0)
      expect(await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).toMatchObject([
        { state: 'retry_scheduled', attemptCount: 1 },
        { state: 'delivered', attemptCount: 1 },
      ])
    })
  })
})

describe('invalid arguments', () => {
  beforeAll(async () => {
    fixture.id = await activeTenant(fixture.tenancy)
  })

  test.each([
    [['listen', 'unknown', '--forward', 'http://localhost:1'], 3],
    [['listen', 'acme'], 2],
    [['listen', 'acme', '--forward', 'not a url'], 2],
    [['listen', 'acme', '--forward', 'ftp://localhost/'], 2],
    [['listen', 'acme', '--forward', 'http://localhost:1', '--events', 'Order Paid'], 2],
    [['listen', 'acme', '--forward', 'http://localhost:1', '--events', ''], 2],
    [['listen', 'acme', '--forward', 'http://localhost:1', '--secret', 'short'], 2],
    [['tail', 'unknown', '--once'], 3],
    [['tail', 'acme', '--since', '-1'], 2],
    [['tail', 'acme', '--since', '1.5'], 2],
    [['tail', 'acme', '--since', '100001'], 2],
    [['tail', 'acme', '--since', '3w'], 2],
  ])('tenant:webhooks:%j exits with %i', async ([name = '', ...rest], code) => {
    const line = rest.map((word) => (word === 'acme' ? fixture.id : word))
    expect((await fixture.tenantry.run(`tenant:webhooks:${name}`, ...line)).code).toBe(code)
  })
})
