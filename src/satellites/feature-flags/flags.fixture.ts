/** A tenancy with flags and its admin API, for the tests of this folder. */
import { vi } from 'vitest'
import { createHttp, DEFAULT_PREFIX } from '../../http/app.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { featureFlags } from './index.ts'

export const TOKEN = 'a-token-for-the-tests'

export type FlagsTenancy = Tenancy<[ReturnType<typeof featureFlags>]>

export interface Api {
  /** @param path below the prefix. Returns status and body. */
  call(method: string, path: string, body?: unknown): Promise<[status: number, body: any]>
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
  /** Content of a path of the host. */
  text(path: string): Promise<string>
}

export const openFlags = (
  postgresUrl: string,
  options: Partial<TenancyConfig<[ReturnType<typeof featureFlags>]>> = {},
): Promise<TestTenancy<[ReturnType<typeof featureFlags>]>> =>
  testTenancy<[ReturnType<typeof featureFlags>]>(postgresUrl, {
    satellites: [featureFlags()],
    role: 'api',
    ...options,
  })

/** Number of statements about flags that a tenancy sent while `work` ran. Other parts send theirs at any time. */
export async function queriesOf({ kernel }: FlagsTenancy, work: () => Promise<unknown>): Promise<number> {
  const queries = vi.spyOn(kernel.database, 'sql') // an earlier spy, if there is one
  const before = queries.mock.calls.length
  try {
    await work()
    const texts = queries.mock.calls.slice(before).map(([statement]) => JSON.stringify(statement))
    return texts.filter((text) => text.includes('multitenancy.feature_flags')).length
  } finally {
    queries.mockRestore()
  }
}

export function apiOf(tenancy: FlagsTenancy): Api {
  const http = createHttp(tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] })
  const send: Api['send'] = (method, path, body, headers = {}) =>
    http.fetch(
      new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
        method,
        headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', ...headers },
        body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
      }),
    )
  return {
    send,
    async call(method, path, body) {
      const response = await send(method, path, body)
      const text = await response.text()
      return [response.status, text === '' ? undefined : JSON.parse(text)]
    },
    text: async (path) => (await http.fetch(new Request(`http://localhost${path}`))).text(),
  }
}
