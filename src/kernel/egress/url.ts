/**
 * Which URLs may be called at all, as far as can be told without looking a name up. What is read in two ways by two programs is
 * refused, and not mended: white space and backslashes that a URL parser leaves out or turns, a missing `//`, a user name.
 */
import { isIP } from 'node:net'
import { type AddressKind, kindOfAddress } from './addresses.ts'

export interface EgressSettings {
  /** Loopback, private, shared and unique local addresses, and names of the own network, may be called. For development. */
  readonly allowPrivateNetworks?: boolean
  /** `http:` may be called beside `https:`. For development. */
  readonly allowHttp?: boolean
  /** That every request goes through, by CONNECT: `http://user:password@host:3128`, or `https:`. None is taken from the environment. */
  readonly proxy?: string | undefined
}

/** Where a request goes. */
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
/** Of ASCII what is not to be seen, and the backslash, which some take for a slash. */
const UNCLEAR = /[\0-\x20\x7f\\]/
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/

/** Never of the public DNS: RFC 6761, RFC 6762, RFC 7686, RFC 8375, and what ICANN keeps for private use. */
const OWN_NETWORK = ['localhost', 'local', 'internal', 'home.arpa', 'onion']

/** The URL as it is called: without a fragment, without a dot at the end of the name. */
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
