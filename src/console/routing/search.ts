/**
 * The query of an address holds the state of a screen: plain strings, checked by the query schema of the operation that the screen names.
 * Invalid values are dropped.
 */
import type { FieldRules, OperationName, Query, Rules } from '../api/contract.ts'
import { hostRulesOf, queryRulesOf } from '../api/rules.ts'

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
/** Members of queries that no screen takes from its address: lists have their own pages. */
export const PAGING: readonly string[] = ['limit', 'cursor']

export const parseSearch = (text: string): Record<string, string> => Object.fromEntries(new URLSearchParams(text))

export function stringifySearch(search: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(entries.map(([key, value]): [string, string] => [key, String(value)])).toString()
  return text && `?${text}`
}

/** Members of a search that the service accepts as the query of an operation, without those of pages. */
export function validSearch(
  name: OperationName,
  search: Readonly<Record<string, unknown>>,
): Record<string, string | number> {
  const rules = queryRulesOf(name)
  return Object.fromEntries(
    Object.entries(search).flatMap(([key, value]) => {
      if (value === undefined) return []
      const text = String(value)
      if (!rules || COMMON.includes(key)) return [[key, text]]
      const rule = PAGING.includes(key) && !hostRulesOf(name) ? undefined : ruleOf(rules, key)
      if (!rule || !isValid(rule, text)) return []
      return [[key, isNumeric(rule) ? Number(text) : text]]
    }),
  )
}

/** Members of a search that `validSearch` drops. */
export function droppedFrom(
  name: OperationName,
  search: Readonly<Record<string, unknown>>,
): (readonly [key: string, value: string])[] {
  const valid = validSearch(name, search)
  return Object.entries(search)
    .filter(([key, value]) => value !== undefined && !Object.hasOwn(valid, key))
    .map(([key, value]) => [key, String(value)])
}

const ruleOf = (rules: Rules, key: string): FieldRules | undefined =>
  Object.hasOwn(rules, key) && !rules[key]?.isPrefix
    ? rules[key]
    : Object.entries(rules).find(([name, { isPrefix }]) => isPrefix && key.startsWith(name) && key !== name)?.[1]

const isNumeric = ({ type }: FieldRules): boolean => type === 'integer' || type === 'number'

/** Whether a text follows the rules of a member of a query. */
export function isValid(rule: FieldRules, text: string): boolean {
  const { anyOf, enum: values, minLength = 0, maxLength = Infinity, pattern } = rule
  if (anyOf) return anyOf.some((one) => isValid(one, text))
  if (isNumeric(rule)) return isValidNumber(rule, Number(text))
  if (values && !values.map(String).includes(text)) return false
  return text.length >= minLength && text.length <= maxLength && (!pattern || matches(text, pattern))
}

function isValidNumber(rule: FieldRules, number: number): boolean {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = rule
  const isInRange = number >= minimum && number <= maximum && number > exclusiveMinimum && number < exclusiveMaximum
  return isInRange && (rule.type === 'number' || Number.isInteger(number))
}

/** As the service, or with the flag `v` of the attribute `pattern`. The service checks a pattern that the browser cannot compile. */
function matches(text: string, pattern: string): boolean {
  try {
    return new RegExp(pattern).test(text) || new RegExp(pattern, 'v').test(text)
  } catch {
    return true
  }
}
