import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { openQuotas, type QuotasOpened } from './quotas.fixture.ts'

const PROCESSES = 4
const CALLS = 5_000
const LIMIT = 1_000
/** Of the store: no call is degraded because the machine is busy. */
const TIMEOUT_MS = 60_000
const PLANS = { defaultPlan: 'free', definitions: { free: { limits: { calls: LIMIT } } } }

describe.each(['postgres', 'redis'] as const)('quotas in four concurrent processes on the store %s', (name) => {
  const keyPrefix = `${uuidv7()}:`
  const isRedis = name === 'redis'
  let all: QuotasOpened
  let children: Child[]

  beforeAll(async () => {
    all = await openQuotas(name, {
      plans: PLANS,
      ...(isRedis ? { store: redisStore({ url: inject('redisUrl'), keyPrefix }) } : {}),
    })
    const options = {
      url: all.opened.url,
      plans: PLANS,
      timeoutMs: TIMEOUT_MS,
      ...(isRedis ? { redisUrl: inject('redisUrl'), keyPrefix } : {}),
    }
    const program = new URL('./consumer.fixture.ts', import.meta.url)
    children = await Promise.all(Array.from({ length: PROCESSES }, () => startChild(program, options)))
  })
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGTERM')))
    await all.opened.end()
  })

  test('of 5,000 calls exactly 1,000 are admitted, and 1,000 are stored', async () => {
    const tenant = await all.tenant()
    const question = { tenant, quota: 'calls', calls: CALLS / PROCESSES }
    const results = await Promise.all(children.map((child) => child.request(question)))
    const admitted: number[] = results.flatMap(({ admitted }) => admitted)
    expect(results.map(({ degraded }) => degraded)).toEqual([0, 0, 0, 0])
    expect(admitted.toSorted((a, b) => a - b)).toEqual(Array.from({ length: LIMIT }, (_, index) => index + 1))
    expect(await all.opened.tenancy.quotas.getUsage(tenant, 'calls')).toBe(LIMIT)
  })
})
