/** What counts of the request by which a browser comes back. */
/** Where a callback's URL is relative, as node:http and Express have it: of a callback, only the path and the query count. */
const ANY_ORIGIN = 'http://localhost'

/** The request that the provider sent the browser to: a web `Request`, or its URL (a path will do) and its `Cookie` header. */
export type SsoCallback = Request | { readonly url: string; readonly cookie?: string | null | undefined }

export interface ParsedCallback {
  readonly path: string
  readonly search: string
  /** Undefined when there is none, or more than one. */
  readonly state: string | undefined
  readonly cookies: string | null
}

export function parseCallback(callback: SsoCallback): ParsedCallback {
  const cookies = callback instanceof Request ? callback.headers.get('cookie') : (callback.cookie ?? null)
  const { pathname: path = '', search = '' } = URL.parse(callback.url, ANY_ORIGIN) ?? {}
  const states = new URLSearchParams(search).getAll('state')
  return { path, search, state: states.length === 1 ? states[0] : undefined, cookies }
}
