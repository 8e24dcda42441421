/** What tests of an outage stand on: a line to a server that is taken away and brought back, and who asks by HTTP meanwhile. */
import type { Http } from '../src/http/app.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { startProxy } from './support/proxy.ts'

export const TOKEN = 'a-token-for-the-outage'

export interface Line {
  /** The server's URL by way of this line. */
  readonly url: string
  disconnect(): Promise<void>
  /** Until it is in use again; nothing is done when it was not away. */
  bringBack(): Promise<void>
  close(): Promise<void>
}

/** @param isInUse throws until what was away is used again */
export async function startLine(serverUrl: string, isInUse: () => unknown): Promise<Line> {
  const proxy = await startProxy(serverUrl)
  let isDisconnected = false
  return {
    url: proxy.url,
    async disconnect() {
      isDisconnected = true
      await proxy.close()
    },
    async bringBack() {
      if (!isDisconnected) return
      isDisconnected = false
      await proxy.open()
      await eventually(isInUse)
    },
    close: () => proxy.close(),
  }
}

export interface CallOptions {
  readonly body?: unknown
  /** Absent: the admin token. */
  readonly headers?: Record<string, string>
}

/** @param at as `GET /readyz` */
export async function call(http: Http, at: string, { body, headers = { 'x-admin-token': TOKEN } }: CallOptions = {}) {
  const [method = '', path] = at.split(' ')
  const response = await http.fetch(
    new Request(`http://tenantry.test${path}`, {
      method,
      headers: { ...headers, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
    }),
  )
  const text = await response.text()
  return { status: response.status, json: text === '' ? undefined : JSON.parse(text), headers: response.headers }
}

/** @param at within the admin API */
export const callAdmin = (http: Http, at: string, options?: CallOptions) =>
  call(http, at.replace(' ', ' /admin/multitenancy'), options)
