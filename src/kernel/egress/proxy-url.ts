/** The proxy that a host's own requests go through, as it is configured. What is wrong with it is told without its password. */

export interface EgressProxy {
  /** It is spoken to by TLS. */
  readonly isSecure: boolean
  /** A name, or an address without brackets. */
  readonly host: string
  readonly port: number
  /** Of `Proxy-Authorization`, when the URL has a user. */
  readonly authorization: string | undefined
}

const WANTED = 'must be a URL such as http://user:password@host:3128'
/** Nothing behind the host but a slash. */
const WHOLE = /^https?:\/\/[^/?#\\\0-\x20\x7f]+\/?$/i

/** The proxy, or what is wrong with the URL. */
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

/** `user:password`; undefined when it cannot be told where the user ends. */
function decoded(username: string, password: string): string | undefined {
  try {
    const user = decodeURIComponent(username)
    return user.includes(':') ? undefined : `${user}:${decodeURIComponent(password)}`
  } catch {
    return undefined
  }
}
