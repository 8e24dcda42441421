/**
 * Classifies IP addresses. An IPv6 address that contains an IPv4 address is classified by the IPv4 address.
 *
 *   public     global unicast
 *   private    loopback, RFC 1918, shared (RFC 6598) and unique local addresses
 *   forbidden  all others regardless of settings, such as link-local addresses with the metadata services of clouds
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export interface AddressKind {
  readonly kind: 'public' | 'private' | 'forbidden'
  /** A noun phrase: `a loopback address`. */
  readonly is: string
}

/** Metadata services of clouds outside of the link-local range: credentials, certificates, settings. */
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
    return { kind: 'forbidden', is: 'a metadata address of a cloud, which returns secrets' }
  const range: string = address.range()
  const isPrivate = PRIVATE[range]
  if (isPrivate) return { kind: 'private', is: isPrivate }
  if (range === 'unicast' && isRouted(address)) return { kind: 'public', is: 'a public address' }
  return { kind: 'forbidden', is: FORBIDDEN[range] ?? 'a reserved address' }
}

/** One eighth of IPv6 is assigned to global unicast; the library counts every range without a name as unicast. */
const isRouted = (address: ipaddr.IPv4 | ipaddr.IPv6) =>
  address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(GLOBAL_UNICAST, 3)

/** Accepts an address or a range: `10.0.0.0/8`, `2001:db8::/32`. */
export const isAddressRange = (text: string): boolean => rangeOf(text) !== undefined

/** Whether an address is in one of the ranges; a mapped IPv6 address counts as its IPv4 address. */
export function isAddressAmong(text: string, ranges: readonly string[]): boolean {
  if (isIP(text) === 0) return false
  const address = ipaddr.process(text)
  return ranges.some((range) => {
    const { from, bits } = rangeOf(range) ?? {}
    return from?.kind() === address.kind() && address.match(from as never, bits as number)
  })
}

/** The network of one client: an IPv4 address, also a mapped one, or the /64 of an IPv6 address; undefined for other texts. */
export function networkOf(text: string): string | undefined {
  if (isIP(text) === 0) return undefined
  const address = ipaddr.process(text)
  if (address.kind() === 'ipv4') return address.toString()
  const network = (address as ipaddr.IPv6).parts.map((part, index) => (index < 4 ? part : 0))
  return `${new ipaddr.IPv6(network)}/64`
}

/** Accepts complete addresses only: the library reads `10/8` as 0.0.0.10/8, and `010.0.0.0/8` as 8.0.0.0/8. */
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
 * Returns the IPv4 address in a mapped, compatible, NAT64 (the well-known prefix) or 6to4 address. The position of the address in a
 * NAT64 prefix of local use is unknown, and a Teredo address contains two: those are not converted, and are forbidden.
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
/** `::` and `::1` have the same prefix and are not converted. */
const COMPATIBLE = [0, 0, 0, 0, 0, 0].join(':')

const ipv4 = (high: number, low: number) => new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff])
