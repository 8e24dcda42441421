/** What an endpoint is: a method, a path, the parameters it knows, and what it answers. */
import type { Params } from './form.ts'
import type { State } from './state.ts'

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With `:id` for the id. */
  readonly path: string
  /** Parameters by their outermost name. Any other is refused, so that nothing a caller relies on is silently ignored. */
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
