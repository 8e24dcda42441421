/**
 * Tests of the provider's health as reported by the check, the doctor and a health probe, without requests to the
 * provider.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import { Doctor } from '../../../kernel/doctor/doctor.ts'
import { createHealth } from '../../../kernel/resilience/health.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'
import type { Billing } from '../billing.ts'
import { diagnoses } from '../doctor.ts'
import { PingProvider } from '../model/job-types.ts'
import type { SubscriptionStatus } from '../model/provider.ts'
import { probeHere } from '../probe.ts'
import { ProviderHealth, SLOW_API_THRESHOLD_MS } from './provider-health.ts'

const MINUTE = 60

let open: OpenBilling
let subscriber: Subscriber
let health: ProviderHealth

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
  subscriber = await open.subscriber('pro')
})
afterAll(() => open.end())

/**
 * State of a process that has just started, with a measurement and a processed event, and without active subscriptions.
 */
beforeEach(async () => {
  open.provider.faults.clear()
  health = new ProviderHealth(open.tenancy.billing.dependencies)
  await setMeasurement()
  await setSubscriptions('canceled')
  await setLastReceived(0)
})

const sql = (text: string, values: unknown[] = []) => open.tenancy.kernel.database.sql(text, values)
const ago = (seconds: number) => new Date(open.provider.now().getTime() - seconds * 1_000)

const setMeasurement = ({ seconds = 0, durationMs = 80, errorCode = null as string | null } = {}) =>
  sql(
    `insert into multitenancy.billing_health (measured_at, duration_ms, error_code) values ($1, $2, $3)
     on conflict (is_only) do update set measured_at = $1, duration_ms = $2, error_code = $3`,
    [ago(seconds), durationMs, errorCode],
  )
const setSubscriptions = (status: SubscriptionStatus, seconds = 0) =>
  sql('update multitenancy.billing_subscriptions set status = $1, created_at = $2', [status, ago(seconds)])
/** Receives all events that many seconds ago; undefined: no event has been processed. */
const setLastReceived = (seconds: number | undefined) =>
  seconds === undefined
    ? sql(`update multitenancy.billing_inbox set status = 'waiting', processed_at = null`)
    : sql(`update multitenancy.billing_inbox set status = 'completed', processed_at = $1, received_at = $1`, [
        ago(seconds),
      ])

/** `pass`, with its message if there is one, or `fail` with its message. */
async function checkResult(): Promise<string> {
  try {
    const message = await health.check()
    return message === undefined ? 'pass' : `pass: ${message}`
  } catch (error) {
    return `fail: ${(error as Error).message}`
  }
}

async function doctorFindings(): Promise<[severity: string, code: string][]> {
  const doctor = new Doctor(createLogger({ level: 'silent' }))
  const diagnosis = diagnoses.find(({ name }) => name === 'billing')
  if (!diagnosis) throw new Error('diagnosis "billing" not found')
  doctor.register(diagnosis, { health } as Billing)
  const { checks } = await doctor.examine()
  for (const { message, remedy } of checks)
    expect([message.length, remedy.length].every((length) => length > 20)).toBe(true)
  return checks.map(({ severity, code }) => [severity, code])
}

test('a healthy provider passes without a message and without findings', async () => {
  expect(await checkResult()).toBe('pass')
  expect(await doctorFindings()).toEqual([])
})

describe('health check of the last measurement', () => {
  test.each([
    [0, 'pass'],
    [3 * MINUTE, 'pass'],
    [3 * MINUTE + 1, 'fail: the payment provider has not been measured for more than 3 minutes'],
    [86_400, 'fail: the payment provider has not been measured for more than 3 minutes'],
  ])('a measurement that is %i seconds old: %s', async (seconds, expected) => {
    await setMeasurement({ seconds })
    expect(await checkResult()).toBe(expected)
    expect(await doctorFindings()).toEqual(expected === 'pass' ? [] : [['error', 'billing.not-measured']])
  })

  test('fails three minutes after the start if there is no measurement', async () => {
    await sql('delete from multitenancy.billing_health')
    expect(await checkResult()).toBe('pass')
    open.provider.advance({ seconds: 3 * MINUTE })
    expect(await checkResult()).toBe('pass')
    open.provider.advance({ seconds: 1 })
    expect(await checkResult()).toMatch(/^fail: .*not been measured/)
    expect(await doctorFindings()).toEqual([['error', 'billing.not-measured']])
  })

  test.each([
    [0, 'pass'],
    [SLOW_API_THRESHOLD_MS, 'pass'],
    [SLOW_API_THRESHOLD_MS + 1, 'pass: degraded: the payment provider took 3001 ms to respond'],
    [9_999, 'pass: degraded: the payment provider took 9999 ms to respond'],
  ])('of %i ms: %s', async (durationMs, expected) => {
    await setMeasurement({ durationMs })
    expect(await checkResult()).toBe(expected)
    expect(await doctorFindings()).toEqual(expected === 'pass' ? [] : [['warn', 'billing.slow']])
  })

  test.each(['provider_unavailable', 'provider_rate_limited', 'authentication_failed', 'unhandled'])(
    'fails for a measurement with the error %s, regardless of its duration',
    async (errorCode) => {
      await setMeasurement({ errorCode, durationMs: 9_999 })
      expect(await checkResult()).toBe(`fail: the payment provider does not respond: ${errorCode}`)
      expect(await doctorFindings()).toEqual([['error', 'billing.unreachable']])
    },
  )
})

describe('health check of the last processed event', () => {
  const noEventsFor = (minutes: number) =>
    `no event of the payment provider was processed for ${minutes} minutes, while subscriptions are active`

  const LINES: readonly [number, string, [string, string][]][] = [
    [0, 'pass', []],
    [5 * MINUTE, 'pass', []],
    [5 * MINUTE + 1, `pass: warning: ${noEventsFor(5)}`, [['warn', 'billing.quiet']]],
    [15 * MINUTE, `pass: warning: ${noEventsFor(15)}`, [['warn', 'billing.quiet']]],
    [15 * MINUTE + 1, `fail: ${noEventsFor(15)}`, [['error', 'billing.silent']]],
    [86_400, `fail: ${noEventsFor(1_440)}`, [['error', 'billing.silent']]],
  ]

  test.each(LINES)('an event that is %i seconds old: %s', async (seconds, expected, findings) => {
    await setSubscriptions('active', 86_400)
    await setLastReceived(seconds)
    expect(await checkResult()).toBe(expected)
    expect(await doctorFindings()).toEqual(findings)
  })

  test.each(LINES)(
    'without a processed event, the age counts from the first active subscription: %i seconds',
    async (seconds, expected, findings) => {
      await setSubscriptions('active', seconds)
      await setLastReceived(undefined)
      expect(await checkResult()).toBe(expected)
      expect(await doctorFindings()).toEqual(findings)
    },
  )

  test('passes without active subscriptions, regardless of the age', async () => {
    await setLastReceived(86_400)
    for (const status of ['canceled', 'incomplete', 'incomplete_expired', 'unpaid', 'paused'] as const) {
      await setSubscriptions(status, 86_400)
      expect([status, await checkResult(), await doctorFindings()]).toEqual([status, 'pass', []])
    }
    for (const status of ['active', 'trialing', 'past_due'] as const) {
      await setSubscriptions(status, 86_400)
      expect([status, await checkResult()]).toEqual([status, `fail: ${noEventsFor(1_440)}`])
    }
  })

  test('does not count the event of an endpoint test', async () => {
    await setSubscriptions('active', 86_400)
    await setLastReceived(86_400)
    const { eventId } = await probeHere(open.tenancy.billing)
    await open.process()
    const { rows } = await sql('select status, processed_at from multitenancy.billing_inbox where event_id = $1', [
      eventId,
    ])
    expect(rows).toEqual([{ status: 'completed', processed_at: ago(0) }])
    expect(await checkResult()).toBe(`fail: ${noEventsFor(1_440)}`)
    await sql('delete from multitenancy.billing_inbox where event_id = $1', [eventId])
  })

  test('does not count failed, waiting and ignored events', async () => {
    await setSubscriptions('active', 86_400)
    for (const status of ['failed', 'waiting', 'ignored']) {
      await sql('update multitenancy.billing_inbox set status = $1, processed_at = $2, received_at = $2', [
        status,
        ago(0),
      ])
      expect([status, await checkResult()]).toEqual([status, `fail: ${noEventsFor(1_440)}`])
    }
  })
})

describe('health check with several problems', () => {
  test('the doctor reports all problems; the check reports a failure before a warning', async () => {
    await setSubscriptions('active', 86_400)
    await setMeasurement({ durationMs: 4_000 })
    await setLastReceived(6 * MINUTE)
    expect(await checkResult()).toMatch(/^pass: degraded: /)
    expect(await doctorFindings()).toEqual([
      ['warn', 'billing.slow'],
      ['warn', 'billing.quiet'],
    ])
    await setLastReceived(16 * MINUTE)
    expect(await checkResult()).toMatch(/^fail: no event/)
    expect(await doctorFindings()).toEqual([
      ['error', 'billing.silent'],
      ['warn', 'billing.slow'],
    ])
  })

  test('reports a missing webhook secret first', async () => {
    const { dependencies } = open.tenancy.billing
    for (const webhookSecret of [undefined, []]) {
      const settings = { ...dependencies.settings, stripe: { ...dependencies.settings.stripe, webhookSecret } }
      health = new ProviderHealth({ ...dependencies, settings })
      await setMeasurement({ errorCode: 'provider_unavailable' })
      expect(await checkResult()).toBe('fail: the webhook secret is missing')
      expect(await doctorFindings()).toEqual([
        ['error', 'billing.no-secret'],
        ['error', 'billing.unreachable'],
      ])
    }
  })
})

describe('a measurement', () => {
  const row = async () =>
    (await sql('select measured_at, duration_ms, error_code from multitenancy.billing_health')).rows

  test('sends one request, and replaces the previous measurement', async () => {
    const requestsBefore = open.provider.requests.length
    open.provider.advance({ seconds: 30 })
    await health.measure()
    await health.measure()
    expect(open.provider.requests.slice(requestsBefore)).toMatchObject([
      { path: '/v1/balance' },
      { path: '/v1/balance' },
    ])
    expect(await row()).toEqual([{ measured_at: ago(0), duration_ms: expect.any(Number), error_code: null }])
    expect(await checkResult()).toBe('pass')
  })

  test('records the error of a rejecting or unreachable provider without a retry', async () => {
    for (const [status, code] of [
      [401, 'authentication_failed'],
      [429, 'provider_rate_limited'],
      [500, 'provider_unavailable'],
    ] as const) {
      open.provider.faults.respond(status, { path: '/v1/balance' })
      const requestsBefore = open.provider.requests.length
      await health.measure()
      expect(open.provider.requests.length - requestsBefore).toBe(1)
      expect(await checkResult()).toBe(`fail: the payment provider does not respond: ${code}`)
      open.provider.faults.clear()
    }
    await open.provider.down()
    await health.measure()
    expect(await checkResult()).toBe('fail: the payment provider does not respond: provider_unavailable')
    await open.provider.up()
    await health.measure()
    expect(await checkResult()).toBe('pass')
  })

  test('fails with provider_unavailable after its timeout', async () => {
    const held = open.provider.faults.hold({ path: '/v1/balance' })
    await expect(open.tenancy.billing.dependencies.payments.ping(100)).rejects.toMatchObject({
      code: 'provider_unavailable',
    })
    held.release()
  })

  test('runs every minute in a worker', async () => {
    await sql('delete from multitenancy.billing_health')
    const worker = await open.open({ role: 'worker' })
    await open.tenancy.kernel.jobs.send(PingProvider, {})
    await eventually(async () => expect(await row()).toMatchObject([{ error_code: null }]))
    const { rows } = await sql(`select cron from multitenancy_jobs.schedule where name = 'tenantry.PingProvider'`)
    expect(rows).toEqual([{ cron: '* * * * *' }])
    await worker.stop()
  })
})

describe('health check of the provider', () => {
  test('sends no request, and reports the last measurement while the provider is unavailable', async () => {
    const requestsBefore = open.provider.requests.length
    for (const report of [checkResult, doctorFindings, () => open.tenancy.billing.check()]) await report()
    expect(open.provider.requests.length).toBe(requestsBefore)
    await open.provider.down()
    expect(await checkResult()).toBe('pass')
    await open.provider.up()
  })

  test('passes or fails with its message in a health probe', async () => {
    const probes = createHealth()
    probes.register('billing', () => health.check())
    const probed = async () => (await probes.report()).checks.billing
    const durationMs = expect.any(Number)
    expect(await probed()).toEqual({ status: 'pass', durationMs })
    await setMeasurement({ durationMs: 3_500 })
    const message = 'degraded: the payment provider took 3500 ms to respond'
    expect(await probed()).toEqual({ status: 'pass', durationMs, message })
    await setMeasurement({ errorCode: 'provider_unavailable' })
    expect(await probed()).toMatchObject({
      status: 'fail',
      message: 'the payment provider does not respond: provider_unavailable',
    })
  })

  test('contains no tenant, customer or key', async () => {
    await setSubscriptions('active', 86_400)
    await setLastReceived(86_400)
    const all = [await checkResult(), JSON.stringify(await doctorFindings())].join()
    for (const secret of Object.values(subscriber)) expect(all).not.toContain(secret)
    expect(all).not.toMatch(/sk_|whsec_|127\.0\.0\.1/)
  })
})
