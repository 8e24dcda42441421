/** Reads openapi.json as a client would, and checks responses against it. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { DEFAULT_PREFIX } from '../../src/http/app.ts'
import { catalogueOf, openApiOf } from '../../src/service/catalogue.ts'
import { satellites } from '../../src/service/main.ts'
import type { HttpResponse } from './calls.ts'

export type JsonSchema = Readonly<Record<string, any>>

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly schema: JsonSchema
}

/** An operation of openapi.json. */
export interface Described {
  readonly name: string
  readonly method: string
  /** Below the prefix: `/tenants/{id}` */
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body: JsonSchema | undefined
  /** Statuses of responses, with their error codes. */
  readonly responses: ReadonlyMap<number, readonly string[]>
  /** Members that the response to a repeated request lacks. */
  readonly shownOnce: readonly string[]
}

/** openapi.json of all satellites, with shared headers, parameters and responses inlined. */
export const document = withoutSharedComponents(openApiOf(catalogueOf(satellites)))
const ajv = formats.default(new Ajv2020({ strict: false, allErrors: true })).addSchema(document, 'document')
const validators = new Map<string, ValidateFunction>()

export const described: readonly Described[] = Object.entries<any>(document.paths).flatMap(([path, methods]) =>
  Object.entries<any>(methods).map(([method, { operationId, parameters = [], requestBody, responses, ...more }]) => ({
    name: operationId,
    shownOnce: more['x-shown-once'] ?? [],
    method: method.toUpperCase(),
    path: path.slice(DEFAULT_PREFIX.length),
    parameters: parameters.map((parameter: any) => ({ required: false, ...parameter })),
    body: requestBody?.content['application/json'].schema,
    responses: new Map(
      Object.entries<any>(responses).map(([status, { description }]) => [
        Number(status),
        description.match(/E_[A-Z_]+/g) ?? [],
      ]),
    ),
  })),
)

function withoutSharedComponents(document: any): any {
  const inline = (value: any): any => {
    if (typeof value !== 'object' || value === null) return value
    const [, kind, name] = /^#\/components\/(headers|parameters|responses)\/(.+)$/.exec(value.$ref ?? '') ?? []
    if (kind && name) return inline(document.components[kind][name])
    if (Array.isArray(value)) return value.map(inline)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inline(inner)]))
  }
  return inline(document)
}

/** Resolves a `$ref` of openapi.json. */
export const resolved = (schema: JsonSchema): JsonSchema =>
  schema.$ref ? resolved(pointed(document, schema.$ref.slice(2).split('/'))) : schema

/** Lists the differences between a response and openapi.json; empty if there are none. */
export function breaches({ method, path, responses }: Described, response: HttpResponse): string[] {
  const { status, headers, json, text } = response
  const codes = responses.get(status)
  if (!codes) return [`status ${status} is not in openapi.json: ${text}`]
  const found: string[] = []
  if (!headers.get('x-request-id')) found.push('x-request-id is missing')
  const mediaType = headers.get('content-type')?.split(';')[0] ?? ''
  const pointer = ['paths', DEFAULT_PREFIX + path, method.toLowerCase(), 'responses', String(status)]
  const { content, headers: promised = {} } = pointed(document, pointer)
  const hasTag = headers.has('etag')
  if (status < 300 && hasTag !== 'ETag' in promised)
    found.push(hasTag ? 'the response has an ETag' : 'the ETag is missing')
  if (!content) return text === '' ? found : [...found, `the response has a body: ${text}`]
  if (!content[mediaType]) return [...found, `the media type is "${mediaType}"`]
  if (!/[/+]json$/.test(mediaType)) return found
  const validate = validatorOf([...pointer, 'content', mediaType, 'schema'])
  if (!validate(json)) found.push(`${ajv.errorsText(validate.errors)}: ${text}`)
  if (mediaType === 'application/problem+json') {
    if (!codes.includes(json.code)) found.push(`the code ${json.code} is not documented for ${status}`)
    if (json.status !== status) found.push(`the problem has status ${json.status}, the response ${status}`)
    // A replayed response has the request id of the first request.
    const isOwn = json.requestId === headers.get('x-request-id')
    if (!isOwn) found.push('requestId differs from the header')
  }
  return found
}

function validatorOf(path: readonly string[]): ValidateFunction {
  const pointer = `document#/${path
    .map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1'))
    .map(encodeURIComponent)
    .join('/')}`
  const known = validators.get(pointer) ?? ajv.compile({ $ref: pointer })
  validators.set(pointer, known)
  return known
}

const pointed = (value: any, path: readonly string[]): any => path.reduce((inner, part) => inner?.[part], value)
