/** The form of an operation: rules and kinds of its fields, and the input of its values. */
import type { FieldRules, Rules } from '../api/contract.ts'
import { type HostOperation, paramsOf } from './operation.ts'
import { titleOf } from './pages.ts'
import { text } from './text.ts'

export type Values = Readonly<Record<string, unknown>>
export type Params = Readonly<Record<string, string>>

const prefixed = (place: string, rules: Rules): Rules =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [`${place}.${name}`, rule]))

/**
 * Rules by the names of fields: `params.noteId`, `query.limit`, `title`.
 *
 * @param start values before the first change
 */
export function rulesOf({ method, params, query, body }: HostOperation, given: Params, start: Values = {}): Rules {
  const missing = Object.fromEntries(Object.entries(params).filter(([name]) => given[name] === undefined))
  const members = Object.entries(body).map(([name, rule]) => [name, fieldRule(rule, method, start[name])])
  return { ...prefixed('params', missing), ...prefixed('query', query), ...Object.fromEntries(members) }
}

/** An empty field is null if the schema allows it. A PATCH cannot remove another value that must not be empty. */
function fieldRule(rule: FieldRules, method: string, start: unknown): FieldRules {
  if (rule.nullable) return { ...rule, required: false }
  const mustStay = method === 'PATCH' && start !== undefined && !isEmpty(rule, start) && emptyValue(rule) === undefined
  return mustStay ? { ...rule, required: true } : rule
}

/** The value of an emptied field. Undefined: it has none. */
function emptyValue({ type, nullable, minLength = 0, minItems = 0, pattern, format, enum: options }: FieldRules) {
  if (nullable) return null
  if (type === 'array') return minItems === 0 ? [] : undefined
  return type === 'string' && minLength === 0 && !pattern && !format && !options ? '' : undefined
}

export const labelOf = (field: string): string => titleOf(field.replace(/^(params|query)\./, ''))

/** A boolean that can be left out, or be null, has a third choice. @param value the present value, whose lines a text field would join */
export function kindOf(rule: FieldRules, value?: unknown) {
  const { type, required, nullable, default: initial, description } = rule
  const isOpen = type === 'boolean' && (nullable || (!required && initial === undefined))
  const isClearable = nullable && !isOpen && !rule.enum && value !== undefined && value !== null
  const as = controlOf(rule, value)
  const hints = [description, type === 'json' && text.json, isClearable && text.emptyIsNull].filter(Boolean)
  return {
    hint: hints.length > 0 ? hints.join('. ') : undefined,
    ...(isOpen ? { options: [['true', text.yes] as const, ['false', text.no] as const] } : {}),
    ...(as ? { as } : {}),
    ...(isClearable ? { isClearable } : {}),
  }
}

function controlOf({ type, format }: FieldRules, value: unknown): 'email' | 'password' | 'textarea' | undefined {
  if (format === 'email' || format === 'password') return format
  return type === 'string' && typeof value === 'string' && /[\r\n]/.test(value) ? 'textarea' : undefined
}

/** @param start values of the fields before the first change: PATCH sends the members that differ */
export function inputOf(operation: HostOperation, given: Params, values: Values, start: Values = {}) {
  const { method, query, body, isPlainBody } = operation
  const of = (place: string, names: readonly string[]) =>
    Object.fromEntries(
      names.flatMap((name) => (`${place}.${name}` in values ? [[name, values[`${place}.${name}`]]] : [])),
    )
  const isPatch = method === 'PATCH' && !isPlainBody
  const members = Object.fromEntries(
    Object.entries(body).flatMap(([name, rule]) => {
      const value = name in values ? values[name] : emptied(rule, start[name])
      const isSent = value !== undefined && (!isPatch || rule.required || isChanged(rule, start[name], value))
      return isSent ? [[name, value]] : []
    }),
  )
  const params = paramsOf(operation).flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]))
  return {
    params: { ...Object.fromEntries(params), ...of('params', paramsOf(operation)) } as Params,
    query: of('query', Object.keys(query)),
    ...(Object.keys(body).length === 0 ? {} : { body: isPlainBody ? members.body : members }),
  }
}

/** The value of an empty field that had a value, or that must have one. Undefined: it is left out. */
function emptied(rule: FieldRules, start: unknown): unknown {
  if (start === undefined) return rule.required && rule.nullable ? null : undefined
  return isEmpty(rule, start) ? start : emptyValue(rule)
}

/** Whether the field of a value is empty. */
const isEmpty = (rule: FieldRules, value: unknown): boolean =>
  ['null', '""', '[]', '{}'].includes(JSON.stringify(shownValue(rule, value)))

/** Whether the value of a field differs from its first value. */
const isChanged = (rule: FieldRules, start: unknown, value: unknown): boolean =>
  JSON.stringify(shownValue(rule, start === undefined ? rule.default : start)) !== JSON.stringify(value)

/** A value as its field returns it: browsers normalize line ends, and a list has one item in each line. */
function shownValue({ type }: FieldRules, value: unknown): unknown {
  if (type === 'string' && typeof value === 'string') return value.replaceAll(/\r\n?/g, '\n')
  if (type !== 'array' || !Array.isArray(value)) return value
  return value
    .join('\n')
    .split('\n')
    .flatMap((line) => line.trim() || [])
}

/** The members of a state that a body has. A value of null is one only if the body allows it. */
export const knownMembers = (state: Values, { body }: HostOperation): Values =>
  Object.fromEntries(
    Object.entries(state).filter(([name, value]) => name in body && (value !== null || body[name]?.nullable)),
  )
