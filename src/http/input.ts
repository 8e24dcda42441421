/** Parses the path, query and body of a request by the schemas of its operation. Each error has its path. */
import { z } from 'zod'
import type { AnyOperation, Input } from '../kernel/api/operation.ts'
import type { Deadline } from '../kernel/base/deadline.ts'
import { type InputError, InvalidRequest, invalid, NotFound, TenancyError } from '../kernel/base/errors.ts'
import { validationErrorsOf } from '../kernel/base/validate.ts'
import { isValidPostgresText } from '../kernel/database/postgres-text.ts'
import { parseJson } from './json.ts'
import { InvalidJson, PayloadTooLarge, UnsupportedMediaType } from './problem.ts'

export const MAX_BODY_BYTES = 1024 * 1024

const NOTHING = z.strictObject({})
const UTF_8 = /^\s*charset\s*=\s*("utf-8"|utf-8)\s*$/
/** Methods with a body. The body of any other method is not read. */
export const HAS_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

interface InputSource extends Pick<Input<any, any, any>, 'currentGrant'> {
  readonly request: Request
  readonly deadline: Deadline
}

/** @param text the body, from `readBody` */
export function parseInput(
  operation: AnyOperation,
  params: Readonly<Record<string, string>>,
  url: URL | string,
  text: string,
  { request, deadline, currentGrant }: InputSource,
): Input<any, any, any> {
  const errors: InputError[] = []
  const parse = (schema: z.ZodType, value: unknown) => {
    const result = schema.safeParse(value)
    if (!result.success) errors.push(...validationErrorsOf(result.error))
    return result.data
  }
  const input = {
    params: operation.params ? parse(operation.params, storable(params)) : {},
    query: parse(operation.query ?? NOTHING, queryOf(url, errors)),
    body: HAS_BODY.has(operation.method) ? parseBody(operation, text, request, parse) : undefined,
    headers: request.headers,
    get signal() {
      return AbortSignal.any([request.signal, deadline.signal])
    },
    currentGrant,
  }
  if (errors.length > 0) throw invalid(errors)
  return input
}

/** The whole body as text. Holds at most `maxBytes`, default 1 MiB; a larger body is `E_PAYLOAD_TOO_LARGE`. */
export async function readBody(request: Request, maxBytes: number = MAX_BODY_BYTES): Promise<string> {
  // The method is checked first: access to the body makes a lazy Request build itself completely.
  if (!HAS_BODY.has(request.method) || !request.body) return ''
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  try {
    for await (const chunk of bodyOf(request, maxBytes)) text += decoder.decode(chunk, { stream: true })
    return text + decoder.decode()
  } catch (error) {
    if (error instanceof TenancyError) throw error
    throw InvalidJson('The body is not valid UTF-8 or is incomplete.', { cause: error })
  }
}

/** The whole body as bytes. Holds at most 1 MiB. */
export async function readBytes(request: Request): Promise<Uint8Array> {
  try {
    if (isKnownToFit(request)) return new Uint8Array(await request.arrayBuffer())
    const chunks: Uint8Array[] = []
    if (request.body) for await (const chunk of bodyOf(request, MAX_BODY_BYTES)) chunks.push(chunk)
    return Buffer.concat(chunks)
  } catch (error) {
    if (error instanceof TenancyError) throw error
    throw InvalidRequest('The body is incomplete.', { cause: error })
  }
}

/** A server delivers no more than `content-length`. A body of known size is read in one call, which is cheaper for a lazy Request. */
function isKnownToFit({ headers }: Request): boolean {
  const length = headers.get('content-length')
  return length !== null && Number(length) <= MAX_BODY_BYTES && !headers.has('content-encoding')
}

async function* bodyOf({ headers, body }: Request, maxBytes: number): AsyncIterable<Uint8Array> {
  const encoding = headers.get('content-encoding') ?? 'identity'
  if (encoding !== 'identity')
    throw UnsupportedMediaType(`The content encoding "${encoding}" is not supported. Send the body without encoding.`)
  const tooLarge = () => PayloadTooLarge(`The body exceeds the limit of ${maxBytes} bytes.`)
  if (Number(headers.get('content-length') ?? 0) > maxBytes) throw tooLarge()
  let size = 0
  // Cancelling the body could close the connection before the response.
  for await (const chunk of body?.values({ preventCancel: true }) ?? []) {
    size += chunk.byteLength
    if (size > maxBytes) throw tooLarge()
    yield chunk
  }
}

/** Rejects a body whose type is not JSON in UTF-8. A PATCH may also contain a merge patch. */
export function requireJson({ method, headers }: Request): void {
  const [type, ...parameters] = (headers.get('content-type') ?? '').toLowerCase().split(';')
  const isJson = (name = '') =>
    name === 'application/json' || (name === 'application/merge-patch+json' && method === 'PATCH')
  if (!isJson(type?.trim())) throw UnsupportedMediaType('The body must be application/json.')
  const isOther = (parameter: string) => /^\s*charset\s*=/.test(parameter) && !UTF_8.test(parameter)
  if (parameters.some(isOther)) throw UnsupportedMediaType('The body must be in UTF-8.')
}

function parseBody(
  operation: AnyOperation,
  text: string,
  request: Request,
  parse: (schema: z.ZodType, value: unknown) => unknown,
): unknown {
  const takesNone = operation.body === undefined
  if (text === '') {
    if (takesNone) return undefined
    if (operation.bodyOptional) return parse(operation.body, {})
    throw invalid([{ path: '', message: 'a JSON body is required' }])
  }
  requireJson(request)
  return parse(operation.body ?? NOTHING, parseJson(text))
}

function queryOf(url: URL | string, errors: InputError[]): Record<string, string> {
  const text = typeof url === 'string' ? url : url.href
  const start = text.indexOf('?')
  if (start < 0) return {}
  const query: Record<string, string> = {}
  for (const [key, value] of new URLSearchParams(text.slice(start).split('#')[0])) {
    if (Object.hasOwn(query, key)) errors.push({ path: key, message: 'given twice' })
    // A schema that collects other members drops this one without an error.
    if (key === '__proto__') errors.push({ path: key, message: 'unknown parameter' })
    else if (!isValidPostgresText(value))
      errors.push({ path: key, message: 'must not contain NUL or an unpaired surrogate' })
    Object.defineProperty(query, key, { value, enumerable: true, configurable: true, writable: true })
  }
  return query
}

function storable(params: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  if (!Object.values(params).every(isValidPostgresText)) throw NotFound('No resource exists at this path.')
  return params
}
