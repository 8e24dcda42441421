/**
 * Where Redis keeps a key of an owner. Everything of one tenant that is counted stands in one slot of a cluster, by the tenant in
 * braces; whoever looks into Redis finds keys as they are called in the documentation:
 *
 *   `circuit` of acme               circuit:{acme}
 *   `session:4711` of the service   session:{}:4711
 *   `feature-flags/new-ui` of acme  tenants/acme/feature-flags/new-ui
 *
 * What separates is percent-encoded in front of it, so that no two keys meet: a key with a slash before any colon takes the last form.
 * `quota:{…}:` is of the counters alone, and `metrics:{…}:` of the sums: `quota:x` of acme is `%71uota:{acme}:x`.
 */
import type { Owner } from '../../kernel/store/store.ts'

/** The service's own is empty: no tenant is. */
const OWNED = /^([^:/]*):\{([^{}]*)\}/
const COUNTING = 'quota'
const SUMMING = 'metrics'
const OF_TENANT = /^tenants\/([^/]*)\//

export class RedisKeys {
  readonly prefix: string

  constructor(prefix: string) {
    if (/[{}]/.test(prefix))
      throw new TypeError('a prefix of keys holds no braces: they say which tenant a key belongs to')
    this.prefix = prefix
  }

  of(owner: Owner, key: string): string {
    const { head, rest } = parts(key)
    if (head === undefined) return `${this.prefix}tenants/${encoded(owner ?? '')}/${key}`
    return `${this.prefix}${ordinary(head)}:{${encoded(owner ?? '')}}${rest}`
  }

  /** Matches the key of any owner, and maybe more. */
  patternOf(key: string): string {
    const { head, rest } = parts(key)
    if (head === undefined) return `${literal(this.prefix)}tenants/*/${literal(key)}`
    return `${literal(this.prefix)}${literal(ordinary(head))}:{*}${literal(rest)}`
  }

  /** Matches what a tenant has, and maybe more. */
  patternsOf(owner: string): readonly string[] {
    return [
      `${literal(this.prefix)}*:{${literal(encoded(owner))}}*`,
      `${literal(this.prefix)}tenants/${literal(encoded(owner))}/*`,
    ]
  }

  /** Whose a key is; undefined when it is none of ours. */
  ownerOf(redisKey: string): Owner | undefined {
    if (!redisKey.startsWith(this.prefix)) return undefined
    const own = redisKey.slice(this.prefix.length)
    const name = OF_TENANT.exec(own)?.[1] ?? OWNED.exec(own)?.[2]
    return name === undefined ? undefined : decodeURIComponent(name) || null
  }

  /** Of a tenant's sums of a day; of null, where it says which tenants have some. */
  summing(owner: Owner, day: string): string {
    return `${this.prefix}${SUMMING}:{${encoded(owner ?? '')}}:${day}`
  }

  /** Of what is counted: one tenant's, all in one slot. */
  counting(tenantId: string): string {
    return `${this.prefix}${COUNTING}:{${encoded(tenantId)}}:`
  }
}

/** Without a head a key has its slash first. */
function parts(key: string): { readonly head: string | undefined; readonly rest: string } {
  const end = key.search(/[:/]/)
  if (end >= 0 && key[end] === '/') return { head: undefined, rest: key }
  return end < 0 ? { head: key, rest: '' } : { head: key.slice(0, end), rest: key.slice(end) }
}

const ORDINARY: Readonly<Record<string, string>> = { [COUNTING]: '%71uota', [SUMMING]: '%6Detrics' }

const ordinary = (head: string): string => (Object.hasOwn(ORDINARY, head) ? (ORDINARY[head] ?? '') : encoded(head))

const encoded = (part: string): string =>
  part.replace(/[%{}/]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

const literal = (text: string): string => text.replace(/[\\*?[\]^-]/g, '\\$&')
