/**
 * Parses the arguments of node-postgres' `query`: a text or an object, with or without values, a callback or a promise.
 */
import { invalid } from '../../kernel/base/errors.ts'
import type { Statement, StatementResult } from '../isolation/driver.ts'

interface QueryConfig {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  readonly rowMode?: string | undefined
  readonly types?: unknown
  readonly callback?: Callback<StatementResult>
}

export type Callback<T> = (error: unknown, result?: T) => void
type Values = readonly unknown[]

/** @param types default parsers of a statement */
export function runQuery(
  given: readonly unknown[],
  types: unknown,
  run: (statement: Statement) => Promise<StatementResult>,
): unknown {
  const [query, values] = given
  const callback = callbackOf(given)
  const result = run(statementOf(query, Array.isArray(values) ? values : undefined, types))
  return callback ? calledBack(result, callback) : result
}

/** Passes the result to a callback, in the context of the caller. */
export function calledBack<T>(result: Promise<T>, callback: Callback<T>): void {
  result.then(
    (result) => callback(null, result),
    (error) => callback(error),
  )
}

function callbackOf(given: readonly unknown[]): Callback<StatementResult> | undefined {
  const last = given.at(-1)
  const callback = typeof last === 'function' ? last : (given[0] as Partial<QueryConfig> | undefined)?.callback
  return typeof callback === 'function' ? (callback as Callback<StatementResult>) : undefined
}

function statementOf(query: unknown, values: Values | undefined, types: unknown): Statement {
  if (typeof query === 'string') return { text: query, values, types }
  const { text, values: own, rowMode, types: ownTypes, submit } = (query ?? {}) as QueryConfig & { submit?: unknown }
  if (submit !== undefined || typeof text !== 'string') {
    throw invalid([
      { path: 'query', message: 'must be a text or { text, values }; cursors, streams and COPY are not available' },
    ])
  }
  return { text, values: values ?? own, types: ownTypes ?? types, rowMode: rowMode === 'array' ? 'array' : undefined }
}
