/**
 * Calls an operation of the admin API by its name. Method and path come from the session.
 *
 * - At most four calls of a tab run concurrently.
 * - A call without a valid session waits for the next sign-in, and is then repeated with the same `Idempotency-Key`.
 */
import type { Input, OperationName, Result } from '../api/contract.ts'
import { get } from './early.ts'
import { filledPath } from './filled-path.ts'
import { Problem, problemOf, unreachable } from './problem.ts'
import { nextSignIn, sessionStore } from './session.ts'
import { settings } from './settings.ts'
import { createStore } from './store.ts'
import { text } from './text.ts'

const MAX_CONCURRENT = 4

/** Whether the last call reached the service. */
export const reachableStore = createStore(true)

export interface CallOptions {
  readonly signal?: AbortSignal
  /** Idempotency key of a POST. */
  readonly key?: string
  /** ETag of the state that a change is based on. */
  readonly ifMatch?: string
  readonly headers?: Readonly<Record<string, string>>
}

type AnyInput = { readonly params?: object; readonly query?: object; readonly body?: unknown }

/** Method, address and JSON body of a call. @throws Problem if the session does not permit it */
export function requestOf(name: OperationName, input: AnyInput = {}): { method: string; url: string; body?: string } {
  const { name: token, operations = {} } = sessionStore.get() ?? {}
  const route = operations[name]
  if (!route) throw new Problem(403, { code: 'E_FORBIDDEN', detail: text.mayNotCall(token ?? '', name) })
  const [method = 'GET', path = ''] = route.split(' ')
  const params = (input.params ?? {}) as Readonly<Record<string, string>>
  const filled = filledPath(path, params)
  if (filled === undefined) {
    throw new Problem(400, { code: 'E_INVALID_REQUEST', detail: text.invalidAddress })
  }
  const query = queryText(input.query)
  const url = `${settings.prefix}${filled}${query && `?${query}`}`
  return input.body === undefined ? { method, url } : { method, url, body: JSON.stringify(input.body) }
}

export function queryText(query: object = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  return new URLSearchParams(entries.map(([key, value]) => [key, String(value)])).toString()
}

/** @throws Problem */
export async function call<Name extends OperationName>(
  name: Name,
  input: Input<Name>,
  options: CallOptions = {},
): Promise<Result<Name>> {
  return resultOf(await callForResponse(name, input, options))
}

/** The body of a response; undefined without one. */
export const resultOf = async <Result>(response: Response): Promise<Result> =>
  response.status === 204 ? (undefined as Result) : response.json()

/** The response of a call, for its headers. @throws Problem */
export async function callForResponse<Name extends OperationName>(
  name: Name,
  input: Input<Name>,
  { signal, key, ifMatch, headers }: CallOptions = {},
): Promise<Response> {
  const { method, url, body } = requestOf(name, input as AnyInput)
  const request: RequestInit = {
    method,
    body: body ?? null,
    signal: signal ?? null,
    headers: {
      accept: 'application/json, application/problem+json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
      ...headers,
    },
  }
  for (;;) {
    const response = await limited(() => send(url, request))
    if (response.ok || response.status === 304) return response
    if (response.status !== 401) throw await problemOf(response)
    await nextSignIn()
    signal?.throwIfAborted()
  }
}

async function send(url: string, request: RequestInit): Promise<Response> {
  try {
    const response = await (request.method === 'GET' ? get(url, request) : fetch(url, request))
    reachableStore.set(true)
    return response
  } catch (error) {
    if (request.signal?.aborted) throw error
    reachableStore.set(false)
    throw unreachable()
  }
}

let running = 0
const queue: (() => void)[] = []

async function limited<T>(work: () => Promise<T>): Promise<T> {
  if (running >= MAX_CONCURRENT) await new Promise<void>((resolve) => queue.push(resolve))
  running++
  try {
    return await work()
  } finally {
    running--
    queue.shift()?.()
  }
}

/** A new idempotency key. `crypto.randomUUID` exists only in secure contexts. */
export const newKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
