/** The provider's search: clauses such as `email:'a@b.c'` or `metadata['tenant']:'acme'`, joined by AND or by OR. */
import { invalid } from './errors.ts'
import { type Params, text } from './form.ts'
import { limitOf } from './lists.ts'

export interface Found<T> {
  readonly object: 'search_result'
  readonly data: T[]
  readonly has_more: boolean
  readonly next_page: string | null
  readonly url: string
}

export function searched<T extends object>(
  oldestFirst: readonly T[],
  query: string,
  params: Params,
  url: string,
): Found<T> {
  const isMatch = understood(query)
  const all = oldestFirst.filter(isMatch).reverse()
  const limit = limitOf(params)
  const start = Number(text(params, 'page') ?? 0)
  const hasMore = start + limit < all.length
  return {
    object: 'search_result',
    data: all.slice(start, start + limit),
    has_more: hasMore,
    next_page: hasMore ? String(start + limit) : null,
    url,
  }
}

const CLAUSE = /^(-?)([a-z_]+)(?:\[["']([^"']+)["']\])?([:~])(?:"([^"]*)"|'([^']*)'|(null))$/

function understood(query: string): (object: object) => boolean {
  const words = query.trim().split(/\s+(AND|OR)\s+/)
  const joins = new Set(words.filter((_, index) => index % 2 === 1))
  if (joins.size > 1) throw invalid('AND and OR cannot be used in one query', 'query')
  const clauses = words.filter((_, index) => index % 2 === 0).map(clause)
  return joins.has('OR')
    ? (object) => clauses.some((matches) => matches(object))
    : (object) => clauses.every((matches) => matches(object))
}

function clause(written: string): (object: object) => boolean {
  const [, not, field = '', key, operator, double, single, isNull] = CLAUSE.exec(written) ?? []
  if (!operator) throw invalid(`We were unable to parse your search query: ${written}`, 'query')
  const wanted = double ?? single ?? ''
  const valueIn = (object: object): unknown => {
    const value = (object as Record<string, unknown>)[field]
    return key === undefined ? value : (value as Record<string, unknown> | null)?.[key]
  }
  const matches = (value: unknown): boolean => {
    if (isNull) return value === null || value === undefined
    if (value === null || value === undefined) return false
    const is = String(value).toLowerCase()
    return operator === '~' ? is.includes(wanted.toLowerCase()) : is === wanted.toLowerCase()
  }
  return (object) => matches(valueIn(object)) !== (not === '-')
}
