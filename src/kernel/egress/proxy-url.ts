/** Parses the URL of the configured proxy. Errors do not contain its password. */

export interface EgressProxy {
  /** The connection to the proxy uses TLS. */
  readonly isSecure: boolean
  /** A name, or an address without brackets. */
  readonly host: string
  readonly port: number
  /** The value of `Proxy-Authorization`, if the URL has a user. */
  readonly authorization: string | undefined
}

const WANTED = 'must be a URL such as http://user:password@host:3128'
/** Only a slash may follow the host. */
const WHOLE = /^https?:\/\/[^/?#\\\0-\x20\x7f]+\/?$/i

/** Returns the proxy, or the reason why the URL is invalid. */
export function proxyOf(text: string): EgressProxy | { readonly reason: string } {
  const url = WHOLE.test(text) ? URL.parse(text) : null
  if (!url || url.port === '0') return { reason: WANTED }
  const { protocol, hostname, port, username, password } = url
  const credentials = decoded(username, password)
  if (credentials === undefined) return { reason: `${WANTED}: its user or password is not percent-encoded` }
  const isSecure = protocol === 'https:'
  return {
    isSecure,
    host: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    authorization: credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
  }
}

/** `user:password`; undefined if the user contains a colon. */
function decoded(username: string, password: string): string | undefined {
  try {
    const user = decodeURIComponent(username)
    return user.includes(':') ? undefined : `${user}:${decodeURIComponent(password)}`
  } catch {
    return undefined
  }
}
