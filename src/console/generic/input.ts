/** The form of an operation: rules and kinds of its fields, and the input of its values. */
import type { FieldRules, Rules } from '../api/contract.ts'
import { type HostOperation, paramsOf } from './operation.ts'
import { titleOf } from './pages.ts'
import { text } from './text.ts'

export type Values = Readonly<Record<string, unknown>>
export type Params = Readonly<Record<string, string>>

const prefixed = (place: string, rules: Rules): Rules =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [`${place}.${name}`, rule]))

/** Rules by the names of fields: `params.noteId`, `query.limit`, `title`. */
export function rulesOf({ params, query, body }: HostOperation, given: Params): Rules {
  const missing = Object.fromEntries(Object.entries(params).filter(([name]) => given[name] === undefined))
  return { ...prefixed('params', missing), ...prefixed('query', query), ...body }
}

export const labelOf = (field: string): string => titleOf(field.replace(/^(params|query)\./, ''))

/** An optional boolean has a third choice: it is left out. @param value the present value, whose lines a text field would join */
export function kindOf(rule: FieldRules, value?: unknown) {
  const { type, required, default: initial, description } = rule
  const isOpen = type === 'boolean' && !required && initial === undefined
  const as = controlOf(rule, value)
  return {
    hint: type === 'json' ? [description, text.json].filter(Boolean).join('. ') : description,
    ...(isOpen ? { options: [['true', text.yes] as const, ['false', text.no] as const] } : {}),
    ...(as ? { as } : {}),
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
  const isSent = (name: string, rule: FieldRules) =>
    name in values && (method !== 'PATCH' || isPlainBody || rule.required || isChanged(rule, start[name], values[name]))
  const members = Object.fromEntries(
    Object.entries(body).flatMap(([name, rule]) => (isSent(name, rule) ? [[name, values[name]]] : [])),
  )
  const params = paramsOf(operation).flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]))
  return {
    params: { ...Object.fromEntries(params), ...of('params', paramsOf(operation)) } as Params,
    query: of('query', Object.keys(query)),
    ...(Object.keys(body).length === 0 ? {} : { body: isPlainBody ? members.body : members }),
  }
}

/** Whether the value of a field differs from its first value. */
const isChanged = (rule: FieldRules, start: unknown, value: unknown): boolean =>
  JSON.stringify(shownValue(rule, start ?? rule.default)) !== JSON.stringify(value)

/** A value as its field returns it: browsers normalize line ends, and a list has one item in each line. */
function shownValue({ type }: FieldRules, value: unknown): unknown {
  if (type === 'string' && typeof value === 'string') return value.replaceAll(/\r\n?/g, '\n')
  if (type !== 'array' || !Array.isArray(value)) return value
  return value
    .join('\n')
    .split('\n')
    .flatMap((line) => line.trim() || [])
}

/** The members of a state that a body has. A field cannot show `null`. */
export const knownMembers = (state: Values, { body }: HostOperation): Values =>
  Object.fromEntries(Object.entries(state).filter(([name, value]) => name in body && value !== null))
