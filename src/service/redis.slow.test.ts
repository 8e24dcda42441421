/** The service starts while Redis is unavailable, and uses it once it is available. */
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { startProxy } from '../../test/support/proxy.ts'
import { programWith } from '../cli/program.fixture.ts'
import { eventually, TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { API, call, TOKEN, useRedisServices } from './redis.fixture.ts'

const services = useRedisServices()

test('starts while Redis is unavailable, logs it, and uses Redis once it is available', async () => {
  const way = await startProxy(inject('redisUrl'))
  await way.close()
  const service = await services.serviceWith(way.url)
  const { id } = await call(service, 'POST', API, { name: 'Acme' })
  const consume = () => call(service, 'POST', `${API}/${id}/quotas/exports/consume`, {})
  expect(await consume()).toMatchObject({ allowed: true, usage: 0, degraded: true })
  expect(await call(service, 'GET', '/readyz')).toMatchObject({
    status: 'degraded',
    checks: { store: { status: 'fail' }, backoffice: { status: 'pass' } },
  })
  await way.open()
  await eventually(async () => expect(await consume()).toMatchObject({ usage: 1, degraded: false }))
  await service.stop()
  await way.close()
})

test('a start at a terminal while Redis is unavailable prints that the sign-in page needs the token', async () => {
  const way = await startProxy(inject('redisUrl'))
  await way.close()
  const tenantry = programWith({
    DATABASE_URL: services.database.url,
    REDIS_URL: way.url,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(services.directory, 'data'),
    PORT: '0',
    LOG_LEVEL: 'error',
  })
  const child = tenantry.start(['serve'], { cwd: services.directory, env: {}, stdin: '' })
  const [block] = await child.says(/Tenantry[\s\S]*Stop with Ctrl-C\./)
  expect(block).toMatch(/Console +http:\S+\/console {3}\(asks for the token\)\n/)
  await tenantry.killAll()
})
