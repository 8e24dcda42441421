/**
 * Tests usage reports without a response. The provider remembers an identifier for a day, so a report that may have
 * counted is sent again only within that day; after it, an operator decides. A report that certainly has not counted is
 * sent until the provider's age limit.
 */
import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { latch } from '../support/latch.ts'
import { type Metered, openMetered } from './usage.fixture.ts'

const METER_EVENTS = '/v1/billing/meter_events'
const MINUTE = 60
const HOUR = 60 * MINUTE
const NO_RETRY = { 'stripe-should-retry': 'false' }

let open: Metered

beforeAll(async () => {
  open = await openMetered('postgres')
})
afterAll(() => open.end())
afterEach(() => open.provider.faults.clear())

const used = async (amount = 5) => {
  const payer = await open.payer()
  await open.tenancy.quotas.track(payer.tenantId, 'calls', amount)
  await open.tenancy.billing.windows.close()
  return payer
}
const row = async (tenantId: string) => (await open.batches(tenantId))[0]
const send = async (tenantId: string) => open.tenancy.billing.usage.send((await row(tenantId))?.id ?? '')
/** Sends the batch; the provider counts it, and its response is lost. */
const sendWithLostResponse = async (tenantId: string) => {
  open.provider.faults.lose({ path: METER_EVENTS })
  await send(tenantId)
}
const reports = () => open.provider.requests.filter(({ path }) => path === METER_EVENTS).length
const held = { sentAt: null, nextAttemptAt: null, heldAt: expect.any(Date) }
const findings = async (tenantId: string) => {
  const { checks } = await open.tenancy.doctor.examine()
  return checks.filter((check) => check.tenantId === tenantId && check.name === 'billing.usage')
}

describe('a report without a response', () => {
  test('is sent again within a day, and counts once', async () => {
    const { tenantId, customerId } = await used()
    await sendWithLostResponse(tenantId)
    expect(await row(tenantId)).toMatchObject({ sentAt: null, unanswered: 1, firstSentAt: open.provider.now() })
    open.provider.advance({ seconds: 23 * HOUR - 1 })
    await send(tenantId)
    expect(await row(tenantId)).toMatchObject({ sentAt: open.provider.now(), heldAt: null })
    expect(open.counted(customerId)).toBe(5)
  })

  test('is not sent again after a day, because it could count twice', async () => {
    const { tenantId, customerId } = await used()
    await sendWithLostResponse(tenantId)
    await open.provider.down()
    for (let hour = 0; hour < 25; hour++) {
      open.provider.advance({ seconds: HOUR })
      await send(tenantId)
    }
    await open.provider.up()
    const before = reports()
    for (let hour = 0; hour < 3; hour++) {
      await open.tenancy.billing.usage.resend()
      await open.send()
      open.provider.advance({ seconds: HOUR })
    }
    expect(reports()).toBe(before)
    expect(open.counted(customerId)).toBe(5)
    expect(await row(tenantId)).toMatchObject({ ...held, errorCode: 'provider_unavailable' })
    expect(open.log.filter((line) => line.includes(tenantId) && line.includes('It is not sent again until'))).toEqual([
      expect.stringContaining('"level":50'),
    ])
    expect(await findings(tenantId)).toMatchObject([
      {
        severity: 'error',
        code: 'billing.usage-unclear',
        message: expect.stringMatching(/^5 of "api_calls" .*provider_unavailable$/),
        remedy: expect.stringContaining('docs/billing.md'),
      },
    ])
    expect((await open.tenancy.billing.of(tenantId)).unreportedUsage).toMatchObject([{ quantity: 5 }])
  })

  test.each([
    ['a response of 500', () => open.provider.faults.respond(500, { headers: NO_RETRY })],
    ['a response of 409', () => open.provider.faults.respond(409, { headers: NO_RETRY })],
    ['a connection reset', () => open.provider.faults.cut({ times: 2 })],
    [
      'a connection reset, followed by refused connections',
      () => {
        open.provider.faults.hold({ path: METER_EVENTS }).arrived.then(() => open.provider.down())
      },
    ],
  ])('may have counted after %s', async (_, fail) => {
    const { tenantId } = await used()
    fail()
    await send(tenantId)
    open.provider.faults.clear()
    await open.provider.down()
    await open.provider.up()
    expect(await row(tenantId)).toMatchObject({ sentAt: null, unanswered: 1, firstSentAt: expect.any(Date) })
    open.provider.advance({ seconds: 23 * HOUR })
    await send(tenantId)
    expect(await row(tenantId)).toMatchObject(held)
  })

  test('may have counted, regardless of the response to a later one', async () => {
    const { tenantId, customerId } = await used()
    await sendWithLostResponse(tenantId)
    const firstSentAt = (await row(tenantId))?.firstSentAt
    open.provider.advance({ seconds: MINUTE })
    open.provider.faults.respond(429)
    await send(tenantId)
    expect(await row(tenantId)).toMatchObject({ unanswered: 1, firstSentAt, errorCode: 'provider_rate_limited' })
    open.provider.faults.clear()
    open.provider.advance({ seconds: 23 * HOUR })
    await send(tenantId)
    expect(await row(tenantId)).toMatchObject(held)
    expect(open.counted(customerId)).toBe(5)
  })

  test('is noted before it leaves, because its process may be killed', async () => {
    const { tenantId } = await used()
    const report = open.provider.faults.hold({ path: METER_EVENTS })
    const sending = send(tenantId)
    await report.arrived
    expect(await row(tenantId)).toMatchObject({ sentAt: null, unanswered: 1, firstSentAt: open.provider.now() })
    report.release()
    await sending
    expect(await row(tenantId)).toMatchObject({ sentAt: expect.any(Date) })
  })

  test('is unclear, not expired, when it is older than the provider accepts', async () => {
    const { tenantId } = await used()
    open.provider.advance({ seconds: 35 * 24 * HOUR - 1 })
    await sendWithLostResponse(tenantId)
    open.provider.advance({ seconds: 2 })
    await send(tenantId)
    expect(await row(tenantId)).toMatchObject(held)
    expect(await findings(tenantId)).toMatchObject([{ code: 'billing.usage-unclear' }])
  })
})

describe('a report that certainly has not counted', () => {
  test.each([
    ['a response of 400', () => open.provider.faults.respond(400)],
    ['a response of 401', () => open.provider.faults.respond(401)],
    ['a response of 429', () => open.provider.faults.respond(429)],
    ['a refused connection', () => open.provider.down()],
  ])('after %s is sent again, also days later', async (_, fail) => {
    const { tenantId, customerId } = await used()
    await fail()
    for (let day = 0; day < 3; day++) {
      await send(tenantId)
      expect(await row(tenantId)).toMatchObject({ sentAt: null, unanswered: 0, firstSentAt: null, heldAt: null })
      open.provider.advance({ seconds: 24 * HOUR })
    }
    open.provider.faults.clear()
    await open.provider.down()
    await open.provider.up()
    await send(tenantId)
    expect(open.counted(customerId)).toBe(5)
    expect(await row(tenantId)).toMatchObject({ sentAt: expect.any(Date) })
  })

  test('does not clear the note of a concurrent report that may have counted', async () => {
    const { tenantId } = await used()
    const first = open.provider.faults.hold({ path: METER_EVENTS })
    const second = open.provider.faults.hold({ path: METER_EVENTS })
    const sending = send(tenantId)
    await first.arrived
    open.provider.faults.respond(429, { times: 1 })
    await send(tenantId)
    expect(await row(tenantId)).toMatchObject({ unanswered: 1, firstSentAt: expect.any(Date) })
    open.provider.faults.lose({ path: METER_EVENTS, times: 2 })
    first.release()
    second.release()
    await sending
    expect(await row(tenantId)).toMatchObject({ sentAt: null, unanswered: 1, firstSentAt: expect.any(Date) })
  })
})

describe('unclear usage', () => {
  /** The SQL statements of docs/billing.md. */
  const statements = [...readFileSync('docs/billing.md', 'utf8').matchAll(/```sql\n(.*?)```/gs)].map(
    ([, text]) => text ?? '',
  )
  const run = async (what: string, tenantId: string) => {
    const text = statements.find((statement) => statement.startsWith(`-- ${what}`)) ?? ''
    return (await open.tenancy.kernel.database.sql(text.replaceAll("'acme'", `'${tenantId}'`))).rows
  }
  const unclear = async () => {
    const payer = await used()
    await sendWithLostResponse(payer.tenantId)
    open.provider.advance({ seconds: 25 * HOUR })
    await send(payer.tenantId)
    return payer
  }

  test('is listed, released and sent with the statements of the guide', async () => {
    const [one, other] = [await unclear(), await unclear()]
    expect(await run('list', one.tenantId)).toMatchObject([{ meter: 'api_calls', quantity: 5 }])
    await run('release', one.tenantId)
    expect(await row(one.tenantId)).toMatchObject({ heldAt: null, unanswered: 0, firstSentAt: null })
    await open.tenancy.billing.usage.resend()
    const { rows } = await open.tenancy.kernel.database.sql(
      `select data ->> 'id' as id from multitenancy_jobs.job where name = 'tenantry.ReportUsageBatch' and data ->> 'id' = $1`,
      [(await row(one.tenantId))?.id],
    )
    expect(rows.length).toBeGreaterThan(0)
    await send(one.tenantId)
    expect(open.counted(one.customerId)).toBe(10)
    expect(await findings(one.tenantId)).toEqual([])
    expect(await row(other.tenantId)).toMatchObject(held)
  })

  test('is dropped with the statement of the guide', async () => {
    const { tenantId, customerId } = await unclear()
    await run('drop', tenantId)
    expect(await findings(tenantId)).toEqual([])
    expect((await open.tenancy.billing.of(tenantId)).unreportedUsage).toEqual([])
    await open.send()
    expect(open.counted(customerId)).toBe(5)
  })

  test('is held and logged once by concurrent processes', async () => {
    const { tenantId } = await used()
    await sendWithLostResponse(tenantId)
    open.provider.advance({ seconds: 23 * HOUR })
    const id = (await row(tenantId))?.id ?? ''
    const others = await Promise.all([open.open(), open.open(), open.open()])
    const release = await latch(open.url, `select from multitenancy.billing_usage where id = '${id}' for update`)
    const stopping = Promise.all(others.map((other) => other.billing.usage.send(id)))
    await eventually(async () => {
      const { rows } = await open.tenancy.kernel.database.sql(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%billing_usage%'`,
      )
      expect(rows).toHaveLength(3)
    })
    await release()
    await stopping
    expect(await row(tenantId)).toMatchObject(held)
    expect(open.log.filter((line) => line.includes(tenantId) && line.includes('not sent again until'))).toHaveLength(1)
    await Promise.all(others.map((other) => other.stop()))
  })
})
