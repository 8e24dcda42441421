/** Parses the request with which a browser returns from the identity provider. */
/** Base of relative URLs, as node:http and Express have them. Only path and query of a callback matter. */
const ANY_ORIGIN = 'http://localhost'

/** The browser's request to the callback: a web `Request`, or its URL (a path is enough) and its `Cookie` header. */
export type SsoCallback = Request | { readonly url: string; readonly cookie?: string | null | undefined }

export interface ParsedCallback {
  readonly path: string
  readonly search: string
  /** Undefined if it is missing or repeated. */
  readonly state: string | undefined
  readonly cookies: string | null
}

export function parseCallback(callback: SsoCallback): ParsedCallback {
  const cookies = callback instanceof Request ? callback.headers.get('cookie') : (callback.cookie ?? null)
  const { pathname: path = '', search = '' } = URL.parse(callback.url, ANY_ORIGIN) ?? {}
  const states = new URLSearchParams(search).getAll('state')
  return { path, search, state: states.length === 1 ? states[0] : undefined, cookies }
}
