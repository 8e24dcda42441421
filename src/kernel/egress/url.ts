/**
 * Checks a URL without a look-up. A URL that programs may read differently is rejected and not corrected: white space, backslashes,
 * a missing `//`, a user name.
 */
import { isIP } from 'node:net'
import { type AddressKind, kindOfAddress } from './addresses.ts'

export interface EgressSettings {
  /** Loopback, private, shared and unique local addresses and names of private networks are allowed. For development. */
  readonly allowPrivateNetworks?: boolean
  /** `http:` is allowed in addition to `https:`. For development. */
  readonly allowHttp?: boolean
  /** Every request uses it, by CONNECT: `http://user:password@host:3128`, or `https:`. The environment's proxy is not used. */
  readonly proxy?: string | undefined
}

/** The destination of a request. */
export interface Target {
  readonly origin: string
  readonly isSecure: boolean
  /** A name, or an address without brackets. */
  readonly host: string
  readonly port: number
  /** With the query. */
  readonly path: string
}

export interface Rejection {
  readonly reason: string
  readonly isForAddress: boolean
}

const MAX_LENGTH = 2_048
const MAX_NAME_LENGTH = 253

const BEGINNING = /^https?:\/\/([^/?#]+)/i
/** Invisible ASCII characters, and the backslash, which some programs read as a slash. */
const UNCLEAR = /[\0-\x20\x7f\\]/
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/

/** Not in the public DNS: RFC 6761, RFC 6762, RFC 7686, RFC 8375, and ICANN's name for private use. */
const OWN_NETWORK = ['localhost', 'local', 'internal', 'home.arpa', 'onion']

/** Returns the URL of the request, without a fragment and without a dot at the end of the name. */
export function judgedUrl(text: string, settings: EgressSettings): { readonly url: URL } | Rejection {
  if (text.length > MAX_LENGTH) return refused(`it is longer than ${MAX_LENGTH} characters`)
  if (UNCLEAR.test(text)) return refused('it has a space, a control character or a backslash in it')
  const authority = BEGINNING.exec(text)?.[1]
  if (authority === undefined) return refused(`it does not begin with ${beginnings(settings)} and a host`)
  if (authority.includes('@')) return refused('it has a user name in it')
  const url = URL.parse(text)
  if (!url) return refused('it is no URL')
  if (url.protocol !== 'https:' && !settings.allowHttp) return refused(`it does not begin with ${beginnings(settings)}`)
  if (url.port === '0') return refused('nothing listens on port 0')
  url.hash = ''
  const rejection = rejectionOfHost(url, settings)
  if (rejection) return rejection
  return url.href.length > MAX_LENGTH ? refused(`it is longer than ${MAX_LENGTH} characters`) : { url }
}

export function targetOf({ origin, protocol, hostname, port, pathname, search }: URL): Target {
  const isSecure = protocol === 'https:'
  return {
    origin,
    isSecure,
    host: withoutBrackets(hostname),
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    path: pathname + search,
  }
}

export function isAllowedAddress(address: string, settings: EgressSettings): boolean {
  return isAllowedKind(kindOfAddress(address), settings)
}

const isAllowedKind = ({ kind }: AddressKind, { allowPrivateNetworks = false }: EgressSettings) =>
  kind === 'public' || (kind === 'private' && allowPrivateNetworks)

function rejectionOfHost(url: URL, settings: EgressSettings): Rejection | undefined {
  const host = withoutBrackets(url.hostname)
  if (isIP(host) !== 0) {
    const kind = kindOfAddress(host)
    return isAllowedKind(kind, settings) ? undefined : { reason: `its host is ${kind.is}`, isForAddress: true }
  }
  const name = host.endsWith('.') ? host.slice(0, -1) : host
  const labels = name.split('.')
  if (name.length > MAX_NAME_LENGTH || !labels.every((label) => LABEL.test(label)))
    return refused('its host is no name that DNS could have')
  url.hostname = name
  if (settings.allowPrivateNetworks) return undefined
  if (labels.length === 1 || OWN_NETWORK.some((suffix) => `.${name}`.endsWith(`.${suffix}`)))
    return { reason: 'its host is a name of a private network', isForAddress: true }
  return undefined
}

const refused = (reason: string): Rejection => ({ reason, isForAddress: false })

const beginnings = ({ allowHttp = false }: EgressSettings) => (allowHttp ? 'https:// or http://' : 'https://')

const withoutBrackets = (host: string) => (host.startsWith('[') ? host.slice(1, -1) : host)
