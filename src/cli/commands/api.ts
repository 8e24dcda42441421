/**
 * Runs `tenantry api GET /tenants`: one request to the running service.
 * - Redirects are not followed, so that only the given service receives the token.
 */
import { readFile } from 'node:fs/promises'
import { text as allOf } from 'node:stream/consumers'
import type { Input } from '../../kernel/api/commands.ts'
import { InvalidRequest, TenancyError } from '../../kernel/base/errors.ts'
import type { ServiceConfig } from '../../service/config.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { interruptible } from '../process/stop-signal.ts'
import { adminToken, serviceUnreachable, serviceUrl } from './service-address.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

export async function api({ args, options, terminal, signal, loadConfig }: OwnInput): Promise<void> {
  const method = (args.method ?? '').toUpperCase()
  if (!METHODS.includes(method))
    throw InvalidRequest(`The method "${args.method}" must be one of ${METHODS.join(', ')}`)
  const headers = headersOf(options.header ?? [])
  const body =
    options.data === undefined ? undefined : await interruptible(bodyOf(options.data, terminal.input), signal, 0)
  const config = await loadConfig()
  const url = serviceUrl(config, options.url)
  const token = adminToken(config)
  if (token && !headers.has('x-admin-token')) headers.set('x-admin-token', token)
  if (body !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json')

  const request = { method, headers, body: body ?? null, signal, redirect: 'manual' as const }
  const response = await fetch(url + pathBelow(config, args.path ?? ''), request).catch((error) => {
    signal.throwIfAborted()
    throw serviceUnreachable(url, error)
  })
  const text = await response.text()
  const isJson = /^application\/([a-z.-]+\+)?json\b/.test(response.headers.get('content-type') ?? '') && text !== ''
  const result: unknown = isJson ? JSON.parse(text) : text || null
  if (response.status >= 300) throw problemOf(response.status, result)
  if (result === null) terminal.say(`${response.status} ${response.statusText}`)
  terminal.print(isJson ? `${JSON.stringify(result, null, 2)}\n` : text, result)
}

function headersOf(given: readonly string[]): Headers {
  const headers = new Headers()
  for (const header of given) {
    const [, name, value] = header.match(/^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/) ?? []
    if (!name || value === undefined) throw InvalidRequest(`--header: "${header}" must have the form name:value`)
    headers.append(name, value)
  }
  return headers
}

async function bodyOf(data: string, input: Input): Promise<string> {
  const body = data === '-' ? await allOf(input) : data.startsWith('@') ? await fileOf(data.slice(1)) : data
  try {
    JSON.parse(body)
  } catch {
    throw InvalidRequest('--data: must be JSON')
  }
  return body
}

const fileOf = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch((error) => {
    throw InvalidRequest(`--data: ${error.message}`)
  })

/** Accepts a path of the API description, with or without the prefix. */
function pathBelow({ prefix }: ServiceConfig, given: string): string {
  if (given.includes('://'))
    throw InvalidRequest(`"${given}" must be a path, such as /tenants. Give the URL of the service with --url.`)
  const path = given.startsWith('/') ? given : `/${given}`
  return path === prefix || path.startsWith(`${prefix}/`) ? path : prefix + path
}

/** Converts the response of the service to an error. */
function problemOf(status: number, result: unknown): TenancyError {
  const problem = typeof result === 'object' && result !== null ? (result as Record<string, unknown>) : {}
  const {
    code = `HTTP_${status}`,
    title = `HTTP ${status}`,
    detail = `The service responded with status ${status}.`,
    type: _,
    status: __,
    ...extras
  } = problem
  return new TenancyError({ code: String(code), status, title: String(title) }, String(detail), { extras })
}
