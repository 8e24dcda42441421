/** Calls the admin API, prints each call with its response, and stops the tour at an unexpected response. */
import { act } from './print.ts'

export const PREFIX = '/admin/multitenancy'

export interface Call {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Status, then the `code` of a problem or the `status` of a tenant: `201 active`, `404 E_TENANT_NOT_FOUND`. Or
   * alternatives.
   */
  readonly expect: string | readonly string[]
  /** Returns a part of the response to print. */
  readonly also?: (result: HttpResponse) => string
}

export interface HttpResponse {
  readonly headers: Headers
  readonly body: any
}

export class AdminApi {
  readonly #url: string
  readonly #token: string
  readonly #signal: AbortSignal

  constructor(url: string, token: string, signal: AbortSignal) {
    this.#url = url
    this.#token = token
    this.#signal = signal
  }

  /** @param path below the prefix, or from the root if it begins with `//`. */
  async call(method: string, path: string, { body, headers, expect, also }: Call): Promise<HttpResponse> {
    const [address, shown] = path.startsWith('//') ? [path.slice(1), path.slice(1)] : [PREFIX + path, path]
    const call = `${method} ${shown}${body === undefined ? '' : ` ${JSON.stringify(body)}`}`
    const request = {
      method,
      headers: {
        'x-admin-token': this.#token,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: this.#signal,
    }
    const response = await fetch(this.#url + address, request).catch((error) => {
      throw new Error(`${call} failed: ${error.cause?.message ?? error.message}`)
    })
    const isJson = /json/.test(response.headers.get('content-type') ?? '')
    const result: HttpResponse = {
      headers: response.headers,
      body: isJson ? await response.json() : await response.text(),
    }
    const outcome = [response.status, result.body.code ?? result.body.status].filter(Boolean).join(' ')
    if (![expect].flat().includes(outcome)) {
      throw new Error(`${call} returned "${outcome}", expected "${expect}": ${text(result.body)}`)
    }
    act(call, [outcome, also?.(result)].filter(Boolean).join(' · '))
    return result
  }
}

const text = (body: unknown): string => (typeof body === 'string' ? body : JSON.stringify(body)).slice(0, 1_000)
