/** Logins while the database or the store is unavailable or unresponsive: never accepted. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Line, startLine } from '../../../test/outage.fixture.ts'
import { startProxy } from '../../../test/support/proxy.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { startProvider, type TestProvider } from './provider.fixture.ts'
import { type OpenSso, openSso, type SsoTenancy } from './sso.fixture.ts'

const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503, retryAfterSeconds: expect.any(Number) }

const refused = async (all: readonly Promise<unknown>[]) => {
  for (const response of await Promise.allSettled(all)) {
    expect(response).toMatchObject({ status: 'rejected', reason: UNAVAILABLE })
  }
}

let provider: TestProvider
beforeAll(async () => {
  provider = await startProvider()
})
afterAll(() => provider?.close())

describe('the database', () => {
  let opened: OpenSso
  let proxy: Awaited<ReturnType<typeof startProxy>>
  let far: SsoTenancy
  let id: string

  beforeEach(async () => {
    opened = await openSso(inject('postgresUrl'))
    id = await opened.tenantAt(provider, { enforced: true })
    proxy = await startProxy(opened.url)
    far = await opened.open({ database: { url: proxy.url } })
    await far.sso.start(id) // tenant and provider are cached
  })
  afterEach(() => opened.end())

  const asked = () => [far.sso.isEnforced(id), far.sso.get(id), far.sso.start(id), far.sso.test(id)]

  test('is unavailable: logins fail', async () => {
    const back = await opened.comeBack(id, provider)
    await proxy.close()
    await refused([...asked(), far.sso.finish(back)])
    await proxy.open()
    expect(await far.sso.isEnforced(id)).toBe(true)
    await proxy.close()
  })

  test('is unresponsive: logins fail within a limit', async () => {
    proxy.blackhole()
    await refused(asked())
    await proxy.close()
  })
})

describe('the store', () => {
  let line: Line
  let opened: OpenSso

  beforeAll(async () => {
    line = await startLine(inject('redisUrl'), () => opened.tenancy.kernel.store.ping())
    opened = await openSso(inject('postgresUrl'), {
      store: redisStore({ url: line.url, keyPrefix: `${uuidv7()}:`, timeoutMs: 300 }),
    })
  })
  afterAll(async () => {
    await opened?.end()
    await line?.close()
  })
  afterEach(() => line.bringBack())

  test('is unavailable: no login starts or finishes, and earlier ones finish afterwards', async () => {
    const { sso } = opened.tenancy
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    await line.disconnect()
    await expect(sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
    await expect(sso.finish(back)).rejects.toMatchObject(UNAVAILABLE)
    expect(await sso.isEnforced(id)).toBe(false)
    await line.bringBack()
    expect(await sso.finish(back)).toMatchObject({ tenantId: id })
  })
})
