/** Helpers of outage tests: an interruptible proxy to a server, and HTTP calls. */
import type { Http } from '../src/http/app.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { startProxy } from './support/proxy.ts'

export const TOKEN = 'a-token-for-the-outage'

export interface Line {
  /** URL of the server through the proxy. */
  readonly url: string
  disconnect(): Promise<void>
  /** Restores the line and waits until it is in use; does nothing if it was not interrupted. */
  bringBack(): Promise<void>
  close(): Promise<void>
}

/** @param isInUse throws until the server is used again */
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
  /** Default: the admin token. */
  readonly headers?: Record<string, string>
}

/** @param at method and path, such as `GET /readyz` */
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

/** @param at method and path within the admin API */
export const callAdmin = (http: Http, at: string, options?: CallOptions) =>
  call(http, at.replace(' ', ' /admin/multitenancy'), options)
