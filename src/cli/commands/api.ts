/**
 * Runs `tenantry api GET /tenants`: one request to the running service, or to a remote one.
 */
import { readFile } from 'node:fs/promises'
import { text as allOf } from 'node:stream/consumers'
import type { Input } from '../../kernel/api/commands.ts'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { interruptible } from '../process/stop-signal.ts'
import { send } from '../remote/request.ts'
import { serviceAddress } from './service-address.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

export async function api(input: OwnInput): Promise<void> {
  const { args, options, terminal, signal } = input
  const method = (args.method ?? '').toUpperCase()
  if (!METHODS.includes(method))
    throw InvalidRequest(`The method "${args.method}" must be one of ${METHODS.join(', ')}`)
  const headers = headersOf(options.header ?? [])
  const body =
    options.data === undefined ? undefined : await interruptible(bodyOf(options.data, terminal.input), signal, 0)
  const { url, prefix, token, remedy } = await serviceAddress(input)
  if (token && !headers.has('x-admin-token')) headers.set('x-admin-token', token)
  if (body !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json')

  const look = 'Read its present state before you repeat the request.'
  const request = { method, headers, body: body ?? null, signal, remedy, look }
  const { status, statusText, isJson, text, result } = await send(url + pathBelow(prefix, args.path ?? ''), request)
  if (result === null) terminal.say(`${status} ${statusText}`)
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
function pathBelow(prefix: string, given: string): string {
  if (given.includes('://'))
    throw InvalidRequest(`"${given}" must be a path, such as /tenants. Give the URL of the service with --url.`)
  const path = given.startsWith('/') ? given : `/${given}`
  return path === prefix || path.startsWith(`${prefix}/`) ? path : prefix + path
}
