/** An operation of a host's satellite, as the service describes it at `{prefix}/session/operations`. */
import type { Rules } from '../api/contract.ts'
import { PAGING } from '../routing/search.ts'

export interface HostOperation {
  readonly satellite: string
  readonly name: string
  readonly method: string
  /** As of the API: `/tenants/{id}/notes`. */
  readonly path: string
  readonly summary: string
  readonly description?: string
  readonly params: Rules
  readonly query: Rules
  readonly body: Rules
  /** Whether the body is one JSON value, with the rule `body`. */
  readonly isPlainBody: boolean
  /** `list`: `{ data }`; `none`: no JSON. */
  readonly result: 'list' | 'value' | 'none'
  /** Members of the items of a list. */
  readonly columns: readonly string[]
  /** Whether it reveals a secret: its result is shown once, and not kept. */
  readonly isSecret: boolean
}

export const paramsOf = ({ path }: Pick<HostOperation, 'path'>): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)

/** Members of the query that filter, without those of pages. */
export const filtersOf = ({ query }: Pick<HostOperation, 'query'>): Rules =>
  Object.fromEntries(Object.entries(query).filter(([name]) => !PAGING.includes(name)))

/** A member of a row as a parameter of a path; empty if it cannot be one. */
export const paramOf = (value: unknown): string =>
  ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : ''
