/**
 * What an IP address is good for, when it is an address that somebody else has named.
 *
 *   public     global unicast: what the internet routes to one machine
 *   private    loopback, RFC 1918, shared (RFC 6598) and unique local addresses: a network of ours
 *   forbidden  everything else, whatever the settings: link-local and with it the metadata of clouds, multicast, broadcast,
 *              unspecified, documentation, reserved, tunnels whose far end cannot be told
 *
 * An IPv6 address that carries an IPv4 one is judged by what it carries.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export interface AddressKind {
  readonly kind: 'public' | 'private' | 'forbidden'
  /** In words: `a loopback address`. */
  readonly is: string
}

/** Where clouds answer their own machines, outside of the link-local range: credentials, certificates, settings. */
const METADATA: ReadonlySet<string> = new Set([
  '168.63.129.16', // Azure
  '100.100.100.200', // Alibaba Cloud
  'fd00:ec2::23', // Amazon EKS
  'fd00:ec2::254', // Amazon EC2
  'fd20:ce::254', // Google Cloud
])

const PRIVATE: Readonly<Record<string, string>> = {
  loopback: 'a loopback address',
  private: 'a private address',
  carrierGradeNat: 'a shared address of a provider',
  uniqueLocal: 'a unique local address',
}

const FORBIDDEN: Readonly<Record<string, string>> = {
  unspecified: 'an unspecified address',
  broadcast: 'the broadcast address',
  multicast: 'a multicast address',
  linkLocal: 'a link-local address',
  deprecatedSiteLocal: 'a site-local address',
  teredo: 'a Teredo address',
  benchmarking: 'an address for benchmarks',
}

const GLOBAL_UNICAST = ipaddr.IPv6.parse('2000::')

export function kindOfAddress(text: string): AddressKind {
  if (isIP(text) === 0) return { kind: 'forbidden', is: 'no address' }
  if (text.includes('%')) return { kind: 'forbidden', is: 'an address of one link' }
  const address = carried(ipaddr.parse(text))
  if (METADATA.has(address.toString()))
    return { kind: 'forbidden', is: 'an address where a cloud tells its machines their secrets' }
  const range: string = address.range()
  const isPrivate = PRIVATE[range]
  if (isPrivate) return { kind: 'private', is: isPrivate }
  if (range === 'unicast' && isRouted(address)) return { kind: 'public', is: 'a public address' }
  return { kind: 'forbidden', is: FORBIDDEN[range] ?? 'a reserved address' }
}

/** Of IPv6 only an eighth is given out for global unicast; the library takes all that has no name of its own for it. */
const isRouted = (address: ipaddr.IPv4 | ipaddr.IPv6) =>
  address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(GLOBAL_UNICAST, 3)

/** Whether it is an address, or a range of them: `10.0.0.0/8`, `2001:db8::/32`. */
export const isAddressRange = (text: string): boolean => rangeOf(text) !== undefined

/** Whether an address is one of these, or in one of these ranges; an IPv4 address in a mapped IPv6 one is that IPv4 address. */
export function isAddressAmong(text: string, ranges: readonly string[]): boolean {
  if (isIP(text) === 0) return false
  const address = ipaddr.process(text)
  return ranges.some((range) => {
    const { from, bits } = rangeOf(range) ?? {}
    return from?.kind() === address.kind() && address.match(from as never, bits as number)
  })
}

/** What counts as one client: an IPv4 address, also a mapped one, or the /64 of an IPv6 address; undefined if it is no address. */
export function networkOf(text: string): string | undefined {
  if (isIP(text) === 0) return undefined
  const address = ipaddr.process(text)
  if (address.kind() === 'ipv4') return address.toString()
  const network = (address as ipaddr.IPv6).parts.map((part, index) => (index < 4 ? part : 0))
  return `${new ipaddr.IPv6(network)}/64`
}

/** Written in full: the library takes `10/8` for 0.0.0.10/8, and `010.0.0.0/8` for 8.0.0.0/8. */
function rangeOf(text: string): { from: ipaddr.IPv4 | ipaddr.IPv6; bits: number } | undefined {
  const [, address = '', length] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const version = isIP(address)
  const most = version === 4 ? 32 : 128
  const bits = length === undefined ? most : Number(length)
  if (version === 0 || bits > most) return undefined
  const from = ipaddr.parse(address)
  const isMapped = from.kind() === 'ipv6' && (from as ipaddr.IPv6).isIPv4MappedAddress() && bits >= MAPPED_BITS
  return isMapped ? { from: ipaddr.process(address), bits: bits - MAPPED_BITS } : { from, bits }
}

/**
 * The IPv4 address in a mapped, compatible, NAT64 (the well-known prefix) or 6to4 one. Of a NAT64 prefix of local use nobody
 * outside knows where the address begins, and a Teredo address names two: those stay what they are, and are forbidden.
 */
function carried(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 {
  if (address.kind() === 'ipv4') return address
  const { parts } = address as ipaddr.IPv6
  const prefix = parts.slice(0, 6).join(':')
  const [, second = 0, third = 0] = parts
  const [seventh = 0, eighth = 0] = parts.slice(6)
  if (prefix === MAPPED || prefix === NAT64) return ipv4(seventh, eighth)
  if (prefix === COMPATIBLE && (seventh > 0 || eighth > 1)) return ipv4(seventh, eighth)
  if (parts[0] === 0x2002) return ipv4(second, third)
  return address
}

const MAPPED_BITS = 96
const MAPPED = [0, 0, 0, 0, 0, 0xffff].join(':')
const NAT64 = [0x64, 0xff9b, 0, 0, 0, 0].join(':')
/** `::` and `::1` begin in the same way, and are themselves. */
const COMPATIBLE = [0, 0, 0, 0, 0, 0].join(':')

const ipv4 = (high: number, low: number) => new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff])
