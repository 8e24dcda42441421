/** The service keeps its store in the Redis of `REDIS_URL`. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { eventually } from '../testing/base/tenancy.ts'
import { API, call, useRedisServices } from './redis.fixture.ts'

const { serviceWith } = useRedisServices()
let redis: Redis
beforeAll(() => {
  redis = new Redis(inject('redisUrl'))
})
afterAll(() => redis.quit())

test('counts quotas and caches flags in Redis under the documented keys', async () => {
  const service = await serviceWith(inject('redisUrl'))
  const { id } = await call(service, 'POST', API, { name: 'Acme' })
  expect(await call(service, 'POST', `${API}/${id}/quotas/exports/consume`, { amount: 3 })).toMatchObject({ usage: 3 })
  await call(service, 'PUT', `${API}/${id}/quotas/usage`, { quota: 'seats', value: 2 })
  await call(service, 'POST', `${API}/${id}/feature-flags/new-ui/evaluate`, {})
  const [counter] = await redis.keys(`quota:{${id}}:????-??-??:exports`)
  expect(await redis.get(counter ?? '')).toBe('3')
  expect(await redis.ttl(counter ?? '')).toBeGreaterThan(48 * 3_600 - 60)
  expect(await redis.get(`quota:{${id}}:snap:seats`)).toBe('2')
  expect(await redis.ttl(`quota:{${id}}:snap:seats`)).toBe(-1)
  await eventually(async () => expect(await redis.exists(`tenants/${id}/feature-flags/new-ui`)).toBe(1))
  expect(await call(service, 'GET', '/readyz')).toMatchObject({ status: 'ok', checks: { store: { status: 'pass' } } })

  const { tenants } = service.tenancy
  await tenants.delete(id)
  await service.tenancy.kernel.database.sql(`update multitenancy.tenants set purge_at = now() - interval '1 day'`)
  await tenants.installation.purge(id)
  expect(await redis.keys(`*${id}*`)).toEqual([])
  await service.stop()
})
