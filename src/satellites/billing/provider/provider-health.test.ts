/** What is said of the provider, line by line, at the check, at the doctor, and as a probe has it; and that saying it asks nobody. */
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

/** As a process that has just started, and has measured and processed; nobody pays. */
beforeEach(async () => {
  open.provider.faults.clear()
  health = new ProviderHealth(open.tenancy.billing.dependencies)
  await measured()
  await standing('canceled')
  await processed(0)
})

const sql = (text: string, values: unknown[] = []) => open.tenancy.kernel.database.sql(text, values)
const ago = (seconds: number) => new Date(open.provider.now().getTime() - seconds * 1_000)

const measured = ({ seconds = 0, durationMs = 80, errorCode = null as string | null } = {}) =>
  sql(
    `insert into multitenancy.billing_health (measured_at, duration_ms, error_code) values ($1, $2, $3)
     on conflict (is_only) do update set measured_at = $1, duration_ms = $2, error_code = $3`,
    [ago(seconds), durationMs, errorCode],
  )
const standing = (status: SubscriptionStatus, seconds = 0) =>
  sql('update multitenancy.billing_subscriptions set status = $1, created_at = $2', [status, ago(seconds)])
/** When the last one of all that were came in; undefined: none ever was processed. */
const processed = (seconds: number | undefined) =>
  seconds === undefined
    ? sql(`update multitenancy.billing_inbox set status = 'waiting', processed_at = null`)
    : sql(`update multitenancy.billing_inbox set status = 'completed', processed_at = $1, received_at = $1`, [
        ago(seconds),
      ])

/** `pass`, with what is said beside it, or `fail` with why. */
async function checked(): Promise<string> {
  try {
    const message = await health.check()
    return message === undefined ? 'pass' : `pass: ${message}`
  } catch (error) {
    return `fail: ${(error as Error).message}`
  }
}

async function found(): Promise<[severity: string, code: string][]> {
  const doctor = new Doctor(createLogger({ level: 'silent' }))
  const diagnosis = diagnoses.find(({ name }) => name === 'billing')
  if (!diagnosis) throw new Error('there is no diagnosis "billing"')
  doctor.register(diagnosis, { health } as Billing)
  const { checks } = await doctor.examine()
  for (const { message, remedy } of checks)
    expect([message.length, remedy.length].every((length) => length > 20)).toBe(true)
  return checks.map(({ severity, code }) => [severity, code])
}

test('where all is well nothing is said', async () => {
  expect(await checked()).toBe('pass')
  expect(await found()).toEqual([])
})

describe('the last measurement', () => {
  test.each([
    [0, 'pass'],
    [3 * MINUTE, 'pass'],
    [3 * MINUTE + 1, 'fail: the payment provider was not measured for more than 3 minutes'],
    [86_400, 'fail: the payment provider was not measured for more than 3 minutes'],
  ])('%i seconds old: %s', async (seconds, expected) => {
    await measured({ seconds })
    expect(await checked()).toBe(expected)
    expect(await found()).toEqual(expected === 'pass' ? [] : [['error', 'billing.not-measured']])
  })

  test('that there never was is missed three minutes after the start', async () => {
    await sql('delete from multitenancy.billing_health')
    expect(await checked()).toBe('pass')
    open.provider.advance({ seconds: 3 * MINUTE })
    expect(await checked()).toBe('pass')
    open.provider.advance({ seconds: 1 })
    expect(await checked()).toMatch(/^fail: .*not measured/)
    expect(await found()).toEqual([['error', 'billing.not-measured']])
  })

  test.each([
    [0, 'pass'],
    [SLOW_API_THRESHOLD_MS, 'pass'],
    [SLOW_API_THRESHOLD_MS + 1, 'pass: degraded: the payment provider took 3001 ms to answer'],
    [9_999, 'pass: degraded: the payment provider took 9999 ms to answer'],
  ])('of %i ms: %s', async (durationMs, expected) => {
    await measured({ durationMs })
    expect(await checked()).toBe(expected)
    expect(await found()).toEqual(expected === 'pass' ? [] : [['warn', 'billing.slow']])
  })

  test.each(['provider_unavailable', 'provider_rate_limited', 'authentication_failed', 'unhandled'])(
    'that came to nothing fails, whatever it was: %s',
    async (errorCode) => {
      await measured({ errorCode, durationMs: 9_999 })
      expect(await checked()).toBe(`fail: the payment provider does not answer: ${errorCode}`)
      expect(await found()).toEqual([['error', 'billing.unreachable']])
    },
  )
})

describe('the last event that was processed', () => {
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

  test.each(LINES)('%i seconds old: %s', async (seconds, expected, findings) => {
    await standing('active', 86_400)
    await processed(seconds)
    expect(await checked()).toBe(expected)
    expect(await found()).toEqual(findings)
  })

  test.each(LINES)(
    'that there never was counts from the first active subscription: %i seconds ago',
    async (seconds, expected, findings) => {
      await standing('active', seconds)
      await processed(undefined)
      expect(await checked()).toBe(expected)
      expect(await found()).toEqual(findings)
    },
  )

  test('does not matter where nobody has an active subscription', async () => {
    await processed(86_400)
    for (const status of ['canceled', 'incomplete', 'incomplete_expired', 'unpaid', 'paused'] as const) {
      await standing(status, 86_400)
      expect([status, await checked(), await found()]).toEqual([status, 'pass', []])
    }
    for (const status of ['active', 'trialing', 'past_due'] as const) {
      await standing(status, 86_400)
      expect([status, await checked()]).toEqual([status, `fail: ${noEventsFor(1_440)}`])
    }
  })

  test('is none that only tries the endpoint', async () => {
    await standing('active', 86_400)
    await processed(86_400)
    const { eventId } = await probeHere(open.tenancy.billing)
    await open.process()
    const { rows } = await sql('select status, processed_at from multitenancy.billing_inbox where event_id = $1', [
      eventId,
    ])
    expect(rows).toEqual([{ status: 'completed', processed_at: ago(0) }])
    expect(await checked()).toBe(`fail: ${noEventsFor(1_440)}`)
    await sql('delete from multitenancy.billing_inbox where event_id = $1', [eventId])
  })

  test('is none that has failed, waits, or was of the other mode', async () => {
    await standing('active', 86_400)
    for (const status of ['failed', 'waiting', 'ignored']) {
      await sql('update multitenancy.billing_inbox set status = $1, processed_at = $2, received_at = $2', [
        status,
        ago(0),
      ])
      expect([status, await checked()]).toEqual([status, `fail: ${noEventsFor(1_440)}`])
    }
  })
})

describe('several at once', () => {
  test('are told one by one by the doctor; a failure goes before a warning at the check', async () => {
    await standing('active', 86_400)
    await measured({ durationMs: 4_000 })
    await processed(6 * MINUTE)
    expect(await checked()).toMatch(/^pass: degraded: /)
    expect(await found()).toEqual([
      ['warn', 'billing.slow'],
      ['warn', 'billing.quiet'],
    ])
    await processed(16 * MINUTE)
    expect(await checked()).toMatch(/^fail: no event/)
    expect(await found()).toEqual([
      ['error', 'billing.silent'],
      ['warn', 'billing.slow'],
    ])
  })

  test('a secret that is missing goes before all', async () => {
    const { dependencies } = open.tenancy.billing
    for (const webhookSecret of [undefined, []]) {
      const settings = { ...dependencies.settings, stripe: { ...dependencies.settings.stripe, webhookSecret } }
      health = new ProviderHealth({ ...dependencies, settings })
      await measured({ errorCode: 'provider_unavailable' })
      expect(await checked()).toBe('fail: the webhook secret is missing')
      expect(await found()).toEqual([
        ['error', 'billing.no-secret'],
        ['error', 'billing.unreachable'],
      ])
    }
  })
})

describe('a measurement', () => {
  const row = async () =>
    (await sql('select measured_at, duration_ms, error_code from multitenancy.billing_health')).rows

  test('is one request, and the only one that is kept', async () => {
    const asked = open.provider.requests.length
    open.provider.advance({ seconds: 30 })
    await health.measure()
    await health.measure()
    expect(open.provider.requests.slice(asked)).toMatchObject([{ path: '/v1/balance' }, { path: '/v1/balance' }])
    expect(await row()).toEqual([{ measured_at: ago(0), duration_ms: expect.any(Number), error_code: null }])
    expect(await checked()).toBe('pass')
  })

  test('of a provider that refuses, or that nobody can reach, says so, and is made once', async () => {
    for (const [status, code] of [
      [401, 'authentication_failed'],
      [429, 'provider_rate_limited'],
      [500, 'provider_unavailable'],
    ] as const) {
      open.provider.faults.respond(status, { path: '/v1/balance' })
      const asked = open.provider.requests.length
      await health.measure()
      expect(open.provider.requests.length - asked).toBe(1)
      expect(await checked()).toBe(`fail: the payment provider does not answer: ${code}`)
      open.provider.faults.clear()
    }
    await open.provider.down()
    await health.measure()
    expect(await checked()).toBe('fail: the payment provider does not answer: provider_unavailable')
    await open.provider.up()
    await health.measure()
    expect(await checked()).toBe('pass')
  })

  test('is given up when no answer comes', async () => {
    const held = open.provider.faults.hold({ path: '/v1/balance' })
    await expect(open.tenancy.billing.dependencies.payments.ping(100)).rejects.toMatchObject({
      code: 'provider_unavailable',
    })
    held.release()
  })

  test('is made by a worker, each minute', async () => {
    await sql('delete from multitenancy.billing_health')
    const worker = await open.open({ role: 'worker' })
    await open.tenancy.kernel.jobs.send(PingProvider, {})
    await eventually(async () => expect(await row()).toMatchObject([{ error_code: null }]))
    const { rows } = await sql(`select cron from multitenancy_jobs.schedule where name = 'tenantry.PingProvider'`)
    expect(rows).toEqual([{ cron: '* * * * *' }])
    await worker.stop()
  })
})

describe('the check', () => {
  test('asks nobody, and says what is known while the provider is away', async () => {
    const asked = open.provider.requests.length
    for (const say of [checked, found, () => open.tenancy.billing.check()]) await say()
    expect(open.provider.requests.length).toBe(asked)
    await open.provider.down()
    expect(await checked()).toBe('pass')
    await open.provider.up()
  })

  test('as a probe has it: passes with its words, or fails with them', async () => {
    const probes = createHealth()
    probes.register('billing', () => health.check())
    const probed = async () => (await probes.report()).checks.billing
    const durationMs = expect.any(Number)
    expect(await probed()).toEqual({ status: 'pass', durationMs })
    await measured({ durationMs: 3_500 })
    const message = 'degraded: the payment provider took 3500 ms to answer'
    expect(await probed()).toEqual({ status: 'pass', durationMs, message })
    await measured({ errorCode: 'provider_unavailable' })
    expect(await probed()).toMatchObject({
      status: 'fail',
      message: 'the payment provider does not answer: provider_unavailable',
    })
  })

  test('names no tenant, customer or key', async () => {
    await standing('active', 86_400)
    await processed(86_400)
    const all = [await checked(), JSON.stringify(await found())].join()
    for (const secret of Object.values(subscriber)) expect(all).not.toContain(secret)
    expect(all).not.toMatch(/sk_|whsec_|127\.0\.0\.1/)
  })
})
