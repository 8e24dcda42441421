/**
 * Lists the breaking changes between two versions of openapi.json.
 *
 * - Breaking: less is offered or accepted, more is required, a default changes, or a response loses a status, error
 *   code, header or member.
 * - Not breaking: new operations, optional request members, response members, values of response enumerations,
 *   statuses, error codes, texts.
 * - Reads only the schema features of our documents: references, objects, maps, arrays, alternatives, enumerations,
 *   formats, bounds, defaults.
 */
import { isDeepStrictEqual } from 'node:util'

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly propertyNames?: Schema
  readonly format?: string
  readonly default?: unknown
  readonly items?: Schema
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly [bound: string]: unknown
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: Schema
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>
}

interface Answer extends Content {
  readonly description?: string
  readonly headers?: Readonly<Record<string, { readonly schema?: Schema }>>
  readonly 'x-error-codes'?: readonly string[]
}

/** Names of schemes that are required together; one list of several suffices. */
type Security = readonly Readonly<Record<string, unknown>>[]

interface Described {
  readonly operationId: string
  readonly security?: Security
  readonly parameters?: readonly (Parameter & { readonly $ref?: string })[]
  readonly requestBody?: Content & { readonly required?: boolean }
  readonly responses: Readonly<Record<string, Answer & { readonly $ref?: string }>>
}

export interface Document {
  readonly security?: Security
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components?: Readonly<Record<string, Readonly<Record<string, any>>>>
}

type Direction = 'request' | 'answer'

/** Request bounds that may not shrink, and those that may not grow; response bounds are not compared. */
const UPPER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']
const LOWER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']

export function breaking(before: Document, after: Document): string[] {
  const found: string[] = []
  for (const [path, methods] of Object.entries(before.paths)) {
    for (const [method, was] of Object.entries(methods)) {
      const name = `${method.toUpperCase()} ${path}`
      const is = after.paths[path]?.[method]
      if (!is) found.push(`${name} is gone`)
      else operation(name, was, is)
    }
  }
  return found

  function operation(name: string, was: Described, is: Described): void {
    if (was.operationId !== is.operationId)
      found.push(`${name} has the operation id ${is.operationId}, formerly ${was.operationId}`)
    const keyed = (all: Described['parameters'] = [], document: Document) =>
      new Map(all.map((one) => resolved(one, document)).map((one: Parameter) => [`${one.in} ${one.name}`, one]))
    const [old, now] = [keyed(was.parameters, before), keyed(is.parameters, after)]
    for (const [key, one] of old) {
      const same = now.get(key)
      if (!same) found.push(`${name} no longer accepts ${key}`)
      else schema(`${name} ${key}`, one.schema, same.schema, 'request')
    }
    for (const [key, one] of now) {
      if (one.required && !old.get(key)?.required) found.push(`${name} requires ${key}`)
    }
    body(name, was, is)
    security(name, was, is)
    for (const [status, given] of Object.entries(was.responses)) {
      const same = is.responses[status]
      if (!same) found.push(`${name} no longer returns ${status}`)
      else answer(`${name} ${status}`, resolved(given, before), resolved(same, after))
    }
  }

  function answer(name: string, was: Answer, is: Answer): void {
    const codes = codesOf(is)
    for (const code of codesOf(was).filter((one) => !codes.includes(one)))
      found.push(`${name} no longer returns ${code}`)
    for (const [header, { schema: old = {} }] of Object.entries(was.headers ?? {})) {
      const now = is.headers?.[header]
      if (!now) found.push(`${name} no longer has ${header}`)
      else schema(`${name} ${header}`, old, now.schema ?? {}, 'answer')
    }
    contents(name, was, is, 'answer')
  }

  function security(name: string, was: Described, is: Described): void {
    const nows = waysIn(is, after)
    for (const way of waysIn(was, before)) {
      const isEnough = nows.some((now) => now.every((needed) => way.some((one) => isDeepStrictEqual(one, needed))))
      if (!isEnough)
        found.push(
          `${name} no longer accepts ${way.map(({ name }) => name).join(' and ') || 'requests without credentials'}`,
        )
    }
  }

  function body(name: string, was: Described, is: Described): void {
    if (!was.requestBody && is.requestBody?.required) found.push(`${name} requires a body`)
    if (!was.requestBody) return
    if (!is.requestBody) return void found.push(`${name} no longer accepts a body`)
    if (is.requestBody.required && !was.requestBody.required) found.push(`${name} requires its body`)
    contents(`${name} body`, was.requestBody, is.requestBody, 'request')
  }

  function contents(name: string, was: Content, is: Content, direction: Direction): void {
    for (const [type, { schema: old = {} }] of Object.entries(was.content ?? {})) {
      const now = is.content?.[type]
      if (!now) found.push(`${name} no longer has ${type}`)
      else schema(name, old, now.schema ?? {}, direction)
    }
  }

  function schema(
    name: string,
    wasGiven: Schema,
    isGiven: Schema,
    direction: Direction,
    seen: readonly string[] = [],
  ): void {
    const key = `${wasGiven.$ref} ${isGiven.$ref}`
    if (wasGiven.$ref && seen.includes(key)) return
    const deeper = wasGiven.$ref ? [...seen, key] : seen
    const [was, is]: [Schema, Schema] = [resolved(wasGiven, before), resolved(isGiven, after)]
    // Defaults of responses have no effect.
    const standing = wasGiven.default ?? was.default
    if (
      direction === 'request' &&
      standing !== undefined &&
      !isDeepStrictEqual(standing, isGiven.default ?? is.default)
    ) {
      found.push(`${name} has another default`)
    }
    const [olds, nows] = [was.anyOf ?? was.oneOf, is.anyOf ?? is.oneOf]
    if (olds || nows) return void alternatives(name, olds ?? [was], nows ?? [is], direction, deeper)
    const types = (one: Schema) => [one.type ?? []].flat()
    const [from, to] = direction === 'request' ? [was, is] : [is, was]
    const lost = types(from).filter((type) => !accepts(types(to), type))
    if (lost.length > 0 || (types(from).length === 0 && types(to).length > 0)) {
      return void found.push(
        `${name} has the type ${types(is).join(' or ') || 'any'}, formerly ${types(was).join(' or ') || 'any'}`,
      )
    }
    values(name, was, is, direction)
    if (from.format !== to.format && to.format !== undefined) {
      found.push(`${name} has the format ${is.format ?? 'none'}, formerly ${was.format ?? 'none'}`)
    }
    if (direction === 'request') bounds(name, was, is)
    members(name, was, is, direction, deeper)
    furtherMembers(name, was, is, direction, deeper)
    if (was.items || is.items) schema(`${name}[]`, was.items ?? {}, is.items ?? {}, direction, deeper)
  }

  function alternatives(
    name: string,
    olds: readonly Schema[],
    nows: readonly Schema[],
    direction: Direction,
    seen: readonly string[],
  ): void {
    // Each alternative of a request must still be accepted; a response may have no new alternative.
    const [each, among] = direction === 'request' ? [olds, nows] : [nows, olds]
    for (const [index, one] of each.entries()) {
      const attempt = (other: Schema) => {
        const length = found.length
        if (direction === 'request') schema(name, one, other, direction, seen)
        else schema(name, other, one, direction, seen)
        return found.splice(length)
      }
      const tries = among.map(attempt)
      if (tries.some((faults) => faults.length === 0)) continue
      found.push(
        ...(tries.length === 1 ? (tries[0] ?? []) : [`${name}: alternative ${index + 1} of ${each.length} differs`]),
      )
    }
  }

  function values(name: string, was: Schema, is: Schema, direction: Direction): void {
    const of = (one: Schema) => one.enum ?? ('const' in one ? [one.const] : undefined)
    const [old, now] = [of(was), of(is)]
    if (direction === 'answer' || !now) return
    const gone = old ? old.filter((value) => !now.includes(value)) : ['other values']
    if (gone.length > 0) found.push(`${name} no longer accepts ${gone.join(', ')}`)
  }

  function bounds(name: string, was: Schema, is: Schema): void {
    const tighter = (names: readonly string[], isTighter: (old: number, now: number) => boolean) =>
      names.filter((bound) => {
        const [old, now] = [was[bound], is[bound]]
        return typeof now === 'number' && (typeof old !== 'number' || isTighter(old, now))
      })
    for (const bound of [...tighter(UPPER, (old, now) => now < old), ...tighter(LOWER, (old, now) => now > old)]) {
      found.push(`${name} has a tighter ${bound}`)
    }
    if (is.pattern !== undefined && is.pattern !== was.pattern) found.push(`${name} has another pattern`)
  }

  /** Members without a declared name: of a map, or of an object that accepts any member. */
  function furtherMembers(name: string, was: Schema, is: Schema, direction: Direction, seen: readonly string[]): void {
    const [old, now] = [was.additionalProperties, is.additionalProperties]
    const of = (one: Schema['additionalProperties']) => (typeof one === 'object' ? one : {})
    const isTold = typeof old === 'object' || (typeof now === 'object' && direction === 'request')
    const isClosed = now === false && (direction === 'request' ? old !== false : isTold)
    if (isClosed) found.push(`${name} no longer has additional members`)
    else if (isTold && old !== false) schema(`${name}.*`, of(old), of(now), direction, seen)
    if (direction === 'answer' || !is.propertyNames) return
    schema(`${name}, names of members`, was.propertyNames ?? { type: 'string' }, is.propertyNames, direction, seen)
  }

  function members(name: string, was: Schema, is: Schema, direction: Direction, seen: readonly string[]): void {
    const isStrict = is.additionalProperties === false
    for (const [member, old] of Object.entries(was.properties ?? {})) {
      const now = is.properties?.[member]
      if (now) schema(`${name}.${member}`, old, now, direction, seen)
      else if (direction === 'answer' || isStrict) found.push(`${name}.${member} is gone`)
    }
    const required = (one: Schema) => one.required ?? []
    const [more, less] = direction === 'request' ? [is, was] : [was, is]
    for (const member of required(more).filter((one) => !required(less).includes(one))) {
      if (direction === 'answer' && !is.properties?.[member]) continue // reported above
      found.push(`${name}.${member} is ${direction === 'request' ? 'required' : 'optional'}`)
    }
  }
}

/** Alternatives to authenticate, each a list of schemes; an empty list always suffices. */
function waysIn(operation: Described, document: Document): { readonly name?: string }[][] {
  const given = operation.security ?? document.security ?? []
  const ways = given.length > 0 ? given : [{}]
  return ways.map((way) => Object.keys(way).map((name) => document.components?.securitySchemes?.[name] ?? { name }))
}

/** The first release named codes only in descriptions. */
const codesOf = ({ 'x-error-codes': codes, description = '' }: Answer): readonly string[] =>
  codes ?? description.match(/\bE_[A-Z_]+\b/g) ?? []

const accepts = (types: readonly string[], type: string): boolean =>
  types.length === 0 || types.includes(type) || (type === 'integer' && types.includes('number'))

function resolved<T extends { readonly $ref?: string }>(one: T, document: Document): any {
  if (!one.$ref) return one
  const [kind = '', name = ''] = one.$ref.replace('#/components/', '').split('/')
  const found = document.components?.[kind]?.[name]
  if (!found) throw new Error(`${one.$ref} does not exist`)
  return resolved(found, document)
}
