/**
 * Which tenant a request names. A strategy looks at one place and answers what stands there, an id or a domain, or nothing; it
 * throws `E_TENANT_NOT_IDENTIFIED` when what stands there can be read in two ways. Whether there is such a tenant is asked of
 * the registry, never of the request.
 *
 *   resolve: firstOf(fromHeader(), fromSubdomain('app.example.com'), fromCustomDomain({ ignore: ['app.example.com'] }))
 */
import { TenantNotIdentified } from '../tenant/errors.ts'
import { Domain, HOST_NAME } from '../tenant/tenant.ts'
import { decodedOnce, hasDotSegment } from './path-patterns.ts'

/** What any framework's request has. Read lazily: a header that decides costs no parsing of anything else. */
export interface GuardedRequest<Raw = any> {
  readonly method: string
  /** As it was sent, without the query: neither decoded nor normalised. */
  readonly path: string
  /** The Host header, or what the framework was told to trust in its place. `x-forwarded-host` by itself is never looked at. */
  readonly host: string | undefined
  /** All values of a header, as the framework has them: several may come as a list or joined by commas. */
  header(name: string): string | readonly string[] | undefined
  /** The framework's own: Express' and Fastify's request, Hono's context, Node's message. */
  readonly raw: Raw
}

/** What a request says. Text of the outside world: only the registry knows whether there is such a tenant. */
export type Candidate = { readonly id: string } | { readonly domain: string }

type Named = Candidate | undefined
export type Strategy = (request: GuardedRequest) => Named | Promise<Named>

export interface IgnoreHosts {
  /** Names that are nobody's: the next strategy is asked. */
  readonly ignore?: readonly string[]
}

/** The tenant's id in a header of its own, given once. */
export function fromHeader(name = 'x-tenant-id'): Strategy {
  const header = name.toLowerCase()
  return (request) => {
    const value = request.header(header)
    if (!value) return undefined
    if (typeof value === 'string' && !value.includes(',')) return { id: value }
    throw TenantNotIdentified(`The header ${header} must name one tenant, once.`)
  }
}

/** `acme` of `acme.app.example.com`. The bare domain, and names of more than one label below it, name nobody. */
export function fromSubdomain(domain: string, { ignore = [] }: IgnoreHosts = {}): Strategy {
  const suffix = `.${Domain.parse(domain)}`
  const ignored = new Set(ignore.map((label) => label.toLowerCase()))
  return ({ host }) => {
    const name = hostName(host)
    if (!name?.endsWith(suffix)) return undefined
    const label = name.slice(0, -suffix.length)
    return label.includes('.') || ignored.has(label) ? undefined : { id: label }
  }
}

/**
 * The tenant that has the request's host among its domains. Any host name counts as named, so `ignore` those of the SaaS itself,
 * and put it last in a chain.
 */
export function fromCustomDomain({ ignore = [] }: IgnoreHosts = {}): Strategy {
  const ignored = new Set(ignore.map((host) => Domain.parse(host)))
  return ({ host }) => {
    const domain = hostName(host)
    return domain === undefined || ignored.has(domain) ? undefined : { domain }
  }
}

/**
 * `acme` of `/t/acme/orders`. The prefix may be empty: then the first segment is the tenant's.
 *
 * Routers differ in what they do with `..`, `//`, `\`, `%2F`, `;` and capital letters before they match. A path in which some of them read
 * another tenant than this does is refused.
 */
export function fromPath({ prefix = '/t' }: { readonly prefix?: string } = {}): Strategy {
  if (prefix !== '' && !/^(\/[\w.~-]+)+$/.test(prefix)) {
    throw new Error(`"${prefix}" is no prefix of paths: write it as "/t", without a slash at the end`)
  }
  const start = `${prefix}/`
  return ({ path }) => {
    const segment = segmentAfter(start, path)
    if (segment !== undefined && hasDotSegment(path)) throw inTwoWays('dot segments')
    const id = segment?.includes('%') ? decodedOnce(segment) : segment
    if (segment !== undefined && id === undefined) throw TenantNotIdentified('The path is not encoded correctly.')
    if (segment === undefined || SPELLINGS.test(path)) {
      const read = withoutDotSegments(normalized(path))
      const isPrefixed = read.slice(0, start.length).toLowerCase() === start.toLowerCase()
      const other = isPrefixed ? segmentAfter('/', read.slice(start.length - 1)) : undefined
      if (id !== other) throw inTwoWays('dot segments, escapes, slashes, parameters or capital letters')
    }
    return id === undefined ? undefined : { id }
  }
}

/** What some routers change before they match a path. */
const SPELLINGS = /[%;\\]|\/\//

/** As the most lenient of them reads it. */
const normalized = (path: string): string =>
  (decodedOnce(path) ?? path)
    .replaceAll('\\', '/')
    .replaceAll(/;[^/]*/g, '')
    .replaceAll(/\/+/g, '/')

const withoutDotSegments = (path: string): string => {
  if (!path.includes('/.')) return path
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') segments.length = Math.max(1, segments.length - 1)
    else if (segment !== '.') segments.push(segment)
  }
  return segments.join('/')
}

const inTwoWays = (what: string) => TenantNotIdentified(`The path has ${what}: it can be read in two ways.`)

/** The next segment; undefined when there is none, or the path begins otherwise. */
function segmentAfter(start: string, path: string): string | undefined {
  if (!path.startsWith(start)) return undefined
  const end = path.indexOf('/', start.length)
  return (end < 0 ? path.slice(start.length) : path.slice(start.length, end)) || undefined
}

/** The host's own way, from a token's claim or a session. */
export function fromFunction(
  find: (request: GuardedRequest) => string | null | undefined | Promise<string | null | undefined>,
): Strategy {
  const named = (id: unknown): Named => {
    if (id === undefined || id === null || id === '') return undefined
    if (typeof id !== 'string') throw new TypeError(`fromFunction: expected the id of a tenant, got a ${typeof id}`)
    return { id }
  }
  return (request) => {
    const id = find(request)
    return isPromise(id) ? Promise.resolve(id).then(named) : named(id)
  }
}

/** The first that names a tenant wins, known or not; the others are not asked. */
export function firstOf(...strategies: readonly Strategy[]): Strategy {
  const from = (request: GuardedRequest, first: number): Named | Promise<Named> => {
    for (let index = first; index < strategies.length; index++) {
      const named = strategies[index]?.(request)
      if (isPromise(named)) return Promise.resolve(named).then((candidate) => candidate ?? from(request, index + 1))
      if (named) return named
    }
    return undefined
  }
  return (request) => from(request, 0)
}

export const isPromise = <T>(value: T | PromiseLike<T>): value is Promise<T> =>
  typeof (value as { then?: unknown } | undefined | null)?.then === 'function'

/**
 * A Host header as domains are kept: lower case, no port, no trailing dot. Undefined for an address, and for what is no host
 * name: a request gives it in ASCII, so that nothing has to be made of it.
 */
export function hostName(host: string | undefined): string | undefined {
  if (!host || host.length > LONGEST_HOST) return undefined
  const name = host
    .replace(/:\d{0,5}$/, '')
    .replace(/\.$/, '')
    .toLowerCase()
  return HOST_NAME.test(name) && !/^[0-9.]+$/.test(name) ? name : undefined
}

/** A name, its trailing dot and a port. */
const LONGEST_HOST = 253 + 1 + 6
