/** Definition of an endpoint: method, path, parameters and handler. */
import type { Params } from './form.ts'
import type { State } from './state.ts'

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With `:id` for the id. */
  readonly path: string
  /** Known parameters by their outermost name. Others are rejected, so that no parameter is silently ignored. */
  readonly takes: readonly string[]
  readonly handle: (state: State, params: Params, id: string) => object
}

export function get(path: string, takes: readonly string[], handle: Route['handle']): Route {
  return { method: 'GET', path, takes, handle }
}

export function post(path: string, takes: readonly string[], handle: Route['handle']): Route {
  return { method: 'POST', path, takes, handle }
}

export function del(path: string, takes: readonly string[], handle: Route['handle']): Route {
  return { method: 'DELETE', path, takes, handle }
}
