/**
 * Strategies that read the tenant of a request. A strategy reads one part of the request and returns an id, a domain,
 * or undefined. It throws `E_TENANT_NOT_IDENTIFIED` for an ambiguous value. The registry decides whether the tenant
 * exists.
 *
 *   resolve: firstOf(fromHeader(), fromSubdomain('app.example.com'), fromCustomDomain({ ignore: ['app.example.com'] }))
 */
import { TenantNotIdentified } from '../tenant/errors.ts'
import { Domain, HOST_NAME } from '../tenant/tenant.ts'
import { decodedOnce, hasDotSegment } from './path-patterns.ts'

/** The framework-independent part of a request. Read lazily: a strategy parses only the part that it needs. */
export interface GuardedRequest<Raw = any> {
  readonly method: string
  /** As received, without the query: neither decoded nor normalized. */
  readonly path: string
  /**
   * The Host header, or the value that the framework was configured to trust. `x-forwarded-host` itself is never read.
   */
  readonly host: string | undefined
  /** The value of a header by its name in lower case. Several values are joined by commas. */
  header(name: string): string | undefined
  /**
   * The framework's own object: the request of Express and Fastify, Hono's context, Node's message.
   *
   * @example authorize: ({ raw }: GuardedRequest<express.Request & { user: User }>, tenant) => raw.user.tenantIds.includes(tenant.id)
   */
  readonly raw: Raw
}

/** The tenant named by a request. Untrusted text: only the registry knows whether the tenant exists. */
export type Candidate = { readonly id: string } | { readonly domain: string }

type Named = Candidate | undefined
export type Strategy = (request: GuardedRequest) => Named | Promise<Named>

export interface IgnoreHosts {
  /** Hosts without a tenant: the next strategy is called. */
  readonly ignore?: readonly string[]
}

/** Reads the tenant's id from a header with exactly one value. `E_TENANT_NOT_IDENTIFIED` for several values. */
export function fromHeader(name = 'x-tenant-id'): Strategy {
  const header = name.toLowerCase()
  return (request) => {
    const value = request.header(header)
    if (!value) return undefined
    if (!value.includes(',')) return { id: value }
    throw TenantNotIdentified(`The header ${header} must name exactly one tenant.`)
  }
}

/** Reads `acme` from `acme.app.example.com`. The bare domain and deeper names name no tenant. */
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
 * Reads the request's host as a custom domain of a tenant. Any host name counts, so `ignore` those of the SaaS itself,
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
 * Reads `acme` from `/t/acme/orders`. With an empty prefix, the first segment is the tenant's id.
 *
 * Routers treat `..`, `//`, `\`, `%2F`, `;` and capital letters differently. A path that some of them would read as
 * another tenant is rejected.
 */
export function fromPath({ prefix = '/t' }: { readonly prefix?: string } = {}): Strategy {
  if (prefix !== '' && !/^(\/[\w.~-]+)+$/.test(prefix)) {
    throw new Error(`"${prefix}" is not a path prefix: write it as "/t", without a slash at the end`)
  }
  const start = `${prefix}/`
  return ({ path }) => {
    const segment = segmentAfter(start, path)
    if (segment !== undefined && hasDotSegment(path)) throw inTwoWays('dot segments')
    const id = segment?.includes('%') ? decodedOnce(segment) : segment
    if (segment !== undefined && id === undefined) throw TenantNotIdentified('The encoding of the path is invalid.')
    if (segment === undefined || SPELLINGS.test(path)) {
      const read = withoutDotSegments(normalized(path))
      const isPrefixed = read.slice(0, start.length).toLowerCase() === start.toLowerCase()
      const other = isPrefixed ? segmentAfter('/', read.slice(start.length - 1)) : undefined
      if (id !== other) throw inTwoWays('dot segments, escapes, slashes, parameters or capital letters')
    }
    return id === undefined ? undefined : { id }
  }
}

/** Characters that some routers change before they match a path. */
const SPELLINGS = /[%;\\]|\/\//

/** The path as read by the most lenient router. */
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

const inTwoWays = (what: string) => TenantNotIdentified(`The path has ${what} and is ambiguous.`)

/** The next segment; undefined if there is none, or the path has another start. */
function segmentAfter(start: string, path: string): string | undefined {
  if (!path.startsWith(start)) return undefined
  const end = path.indexOf('/', start.length)
  return (end < 0 ? path.slice(start.length) : path.slice(start.length, end)) || undefined
}

/** Calls a function of the host, for example to read a token's claim or a session. */
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

/** Returns the result of the first strategy that names a tenant, known or not. Later strategies are not called. */
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
 * Converts a Host header to the form of stored domains: lower case, no port, no trailing dot. Undefined for an address
 * and for an invalid name; a Host header is ASCII already.
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
