/** Clocks that do not agree: the rule as a table, and the real clocks of PostgreSQL and Redis. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { redisStore } from '../../drivers/store/redis.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { uuidv7 } from '../base/ids.ts'
import { deadPort } from '../egress/receivers.fixture.ts'
import { clockFindings } from './clocks.ts'

const exactly = (ms: number, withinMs = 0) => ({ ms, withinMs })
const describeFindings = (found: ReturnType<typeof clockFindings>) =>
  [...found].map(({ severity, code, message }) => `${severity} ${code}: ${message}`)

describe('findings for the clocks of process and database', () => {
  test.each([
    [0, []],
    [999, []],
    [-999, []],
    [1_000, ['warn clocks.process: the clock of this process is 1.0 s behind that of the backoffice database']],
    [-29_999, ['warn clocks.process: the clock of this process is 30.0 s ahead of that of the backoffice database']],
    [30_000, ['error clocks.process: the clock of this process is 30.0 s behind that of the backoffice database']],
  ])('with a database that is %i ms ahead', (ms, expected) => {
    expect(describeFindings(clockFindings(exactly(ms), []))).toEqual(expected)
  })

  test('differences up to half of a slow round trip are ignored', () => {
    expect(describeFindings(clockFindings(exactly(3_000, 2_500), []))).toEqual([])
    expect(describeFindings(clockFindings(exactly(-31_000, 2_000), []))).toEqual([
      'warn clocks.process: the clock of this process is 31.0 s ahead of that of the backoffice database',
    ])
  })
})

describe('findings for the clock of the store', () => {
  test("the clock of the machine is compared with the database, not the kernel's clock", () => {
    expect(describeFindings(clockFindings(exactly(500), [exactly(-600)]))).toEqual([
      'warn clocks.store: the clock of the store is 1.1 s behind that of the backoffice database',
    ])
    expect(describeFindings(clockFindings(exactly(60_000), [exactly(60_200)]))).toEqual([
      expect.stringMatching(/^error clocks\.process/),
    ])
  })

  test('the worst of several servers is reported, with the errors of both measurements', () => {
    expect(describeFindings(clockFindings(exactly(0), [exactly(1_500), exactly(-40_000), exactly(100)]))).toEqual([
      'error clocks.store: the clock of the store is 40.0 s behind that of the backoffice database',
    ])
    expect(describeFindings(clockFindings(exactly(0, 400), [exactly(1_300, 400)]))).toEqual([])
  })
})

describe('the real clocks', () => {
  let storeOffsetMs: number
  let made: TestTenancy<[]>
  beforeAll(async () => {
    const address = { url: inject('redisUrl'), keyPrefix: `${uuidv7()}:`, timeoutMs: 10_000 }
    const store = redisStore({ ...address, clockOffsetMs: () => storeOffsetMs })
    made = await testTenancy(inject('postgresUrl'), { role: 'api', store })
  })
  beforeEach(() => {
    storeOffsetMs = 0
  })
  afterAll(() => made?.end())

  const found = async ({ doctor }: Tenancy) =>
    (await doctor.examine()).checks.filter(({ name }) => name === 'clocks' || name === 'store')

  /** Until the end of the test. */
  function setProcessClock(offsetMs: number): void {
    const now = Date.now
    vi.spyOn(Date, 'now').mockImplementation(() => now() + offsetMs)
  }

  test('have no finding if they agree', async () => {
    expect(await found(made.tenancy)).toEqual([])
  })

  test.each<[string, number, string, RegExp]>([
    ['far ahead', 45_000, 'error', /^the clock of this process is 4\d\.\d s ahead of/],
    ['a little behind', -5_000, 'warn', /^the clock of this process is \d\.\d s behind/],
  ])('have a finding for a process that is %s', async (_, offsetMs, severity, message) => {
    setProcessClock(offsetMs)
    expect(await found(made.tenancy)).toMatchObject([
      { severity, code: 'clocks.process', message: expect.stringMatching(message) },
    ])
  })

  test('have a finding for a store that is behind', async () => {
    storeOffsetMs = -5_000
    const message = expect.stringMatching(/^the clock of the store is \d\.\d s behind/)
    expect(await found(made.tenancy)).toMatchObject([{ severity: 'warn', code: 'clocks.store', message }])
  })

  test('of an unavailable store have a finding for the store and none for its clock', async () => {
    const store = redisStore({ url: `redis://127.0.0.1:${await deadPort()}`, timeoutMs: 50 })
    const other = await testTenancy(inject('postgresUrl'), { store })
    onTestFinished(other.end)
    expect(await found(other.tenancy)).toMatchObject([{ code: 'store.away' }])
  })
})
