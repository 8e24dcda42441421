/** Clocks that do not agree: the rule as a table, and the real clocks of PostgreSQL and Redis. */
import { afterEach, describe, expect, inject, test, vi } from 'vitest'
import { redisStore } from '../drivers/store/redis.ts'
import { startRedisServer } from '../testing/redis-server.ts'
import { testTenancy } from '../testing/tenancy.ts'
import { clockFindings } from './clocks-diagnosis.ts'

const exactly = (ms: number, withinMs = 0) => ({ ms, withinMs })
const told = (found: ReturnType<typeof clockFindings>) =>
  [...found].map(({ severity, code, message }) => `${severity} ${code}: ${message}`)

describe('of the clocks of process and database', () => {
  test.each([
    [0, []],
    [999, []],
    [-999, []],
    [1_000, ['warn clocks.process: the clock of this process is 1.0 s behind that of the backoffice database']],
    [-29_999, ['warn clocks.process: the clock of this process is 30.0 s ahead of that of the backoffice database']],
    [30_000, ['error clocks.process: the clock of this process is 30.0 s behind that of the backoffice database']],
  ])('a database that is %i ms ahead', (ms, expected) => {
    expect(told(clockFindings(exactly(ms), []))).toEqual(expected)
  })

  test('what a slow answer may account for does not count', () => {
    expect(told(clockFindings(exactly(3_000, 2_500), []))).toEqual([])
    expect(told(clockFindings(exactly(-31_000, 2_000), []))).toEqual([
      'warn clocks.process: the clock of this process is 31.0 s ahead of that of the backoffice database',
    ])
  })
})

describe('of the clock of the store', () => {
  test('it is compared with that of the database, whatever this process believes', () => {
    expect(told(clockFindings(exactly(500), [exactly(-600)]))).toEqual([
      'warn clocks.store: the clock of the store is 1.1 s behind that of the backoffice database',
    ])
    expect(told(clockFindings(exactly(60_000), [exactly(60_200)]))).toEqual([
      expect.stringMatching(/^error clocks\.process/),
    ])
  })

  test('of several servers the worst is told, and both errors count', () => {
    expect(told(clockFindings(exactly(0), [exactly(1_500), exactly(-40_000), exactly(100)]))).toEqual([
      'error clocks.store: the clock of the store is 40.0 s behind that of the backoffice database',
    ])
    expect(told(clockFindings(exactly(0, 400), [exactly(1_300, 400)]))).toEqual([])
  })
})

describe('the real clocks', () => {
  const ends: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    vi.useRealTimers()
    for (const end of ends.splice(0)) await end()
  })
  const found = async ({ doctor }: Awaited<ReturnType<typeof testTenancy>>['tenancy']) =>
    (await doctor.examine()).checks.filter(({ name }) => name === 'clocks' || name === 'store')

  async function opened(offsetMs = 0) {
    const server = await startRedisServer()
    ends.push(() => server.stop())
    const made = await testTenancy(inject('postgresUrl'), {
      role: 'api',
      store: redisStore({ url: server.url, timeoutMs: 300, clockOffsetMs: () => offsetMs }),
    })
    ends.unshift(made.end)
    return { ...made, server }
  }

  test('agree here, and a process whose clock is wrong is told from both others', async () => {
    const { tenancy } = await opened()
    expect(await found(tenancy)).toEqual([])
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 45_000 })
    expect(await found(tenancy)).toMatchObject([
      {
        severity: 'error',
        code: 'clocks.process',
        message: expect.stringMatching(/^the clock of this process is 4[45]\.\d s ahead of/),
      },
    ])
    vi.setSystemTime(Date.now() - 50_000)
    expect(await found(tenancy)).toMatchObject([
      {
        severity: 'warn',
        code: 'clocks.process',
        message: expect.stringMatching(/^the clock of this process is \d\.\d s behind/),
      },
    ])
  })

  test('of a store that is behind, and of one that is away', async () => {
    const { tenancy, server } = await opened(-5_000)
    expect(await found(tenancy)).toMatchObject([
      {
        severity: 'warn',
        code: 'clocks.store',
        message: expect.stringMatching(/^the clock of the store is \d\.\d s behind/),
      },
    ])
    await server.kill()
    await vi.waitUntil(
      () =>
        tenancy.kernel.store.ping().then(
          () => false,
          () => true,
        ),
      { timeout: 10_000 },
    )
    expect(await found(tenancy)).toMatchObject([{ code: 'store.away' }])
  })
})
