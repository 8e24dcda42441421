/** An operation of a host's satellite, as the service describes it at `{prefix}/session/operations`. */
import type { Rules } from '../api/contract.ts'

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
}

export const paramsOf = ({ path }: Pick<HostOperation, 'path'>): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
