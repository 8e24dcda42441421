/**
 * The query of an address holds the state of a screen: plain strings, checked by the query schema of the operation that the screen names.
 * Invalid values are dropped.
 */
import type { FieldRules, OperationName, Query } from '../api/contract.ts'
import { queryRulesOf } from '../api/rules.ts'

/** Members of every address. */
export interface CommonSearch {
  /** The open panel: the id of an object, or `new`. */
  readonly open?: string
  /** Point in time of the shown state. */
  readonly at?: string
  /** Names of the shown columns, separated by commas. */
  readonly columns?: string
}

export type SearchOf<Name extends OperationName> = Partial<Query<Name>> & CommonSearch

const COMMON: readonly string[] = ['open', 'at', 'columns']

export const parseSearch = (text: string): Record<string, string> => Object.fromEntries(new URLSearchParams(text))

export function stringifySearch(search: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(entries.map(([key, value]): [string, string] => [key, String(value)])).toString()
  return text && `?${text}`
}

/** Valid members of a search. */
export function validSearch(
  name: OperationName | undefined,
  search: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const rules = name ? queryRulesOf(name) : {}
  return Object.fromEntries(
    Object.entries(search).flatMap(([key, value]) => {
      if (value === undefined) return []
      if (COMMON.includes(key)) return [[key, String(value)]]
      const rule = rules[key]
      if (!rule || !isValid(rule, String(value))) return []
      return [[key, rule.type === 'integer' || rule.type === 'number' ? Number(value) : String(value)]]
    }),
  )
}

function isValid(rule: FieldRules, text: string): boolean {
  const { type, minimum = -Infinity, maximum = Infinity, minLength = 0, maxLength = Infinity, pattern } = rule
  if (type === 'integer' || type === 'number') {
    const number = Number(text)
    const form = type === 'integer' ? /^-?\d+$/ : /^-?\d+(\.\d+)?$/
    return form.test(text) && number >= minimum && number <= maximum
  }
  if (rule.enum && !rule.enum.includes(text)) return false
  return text.length >= minLength && text.length <= maxLength && (!pattern || matches(text, pattern))
}

/** The service checks a pattern of a host that the browser cannot compile. */
function matches(text: string, pattern: string): boolean {
  try {
    return new RegExp(pattern, 'v').test(text)
  } catch {
    return true
  }
}
