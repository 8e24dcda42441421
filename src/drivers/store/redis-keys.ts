/**
 * Maps a key of an owner to a key in Redis, as documented. All counters of one tenant share one slot of a cluster, by
 * the tenant in braces:
 *
 *   `circuit` of acme               circuit:{acme}
 *   `session:4711` of the service   session:{}:4711
 *   `feature-flags/new-ui` of acme  tenants/acme/feature-flags/new-ui
 *
 * - Separators before the owner are percent-encoded, so that keys are unique. A key with a slash before any colon has
 *   the last form.
 * - `quota:{…}:` is reserved for counters and `metrics:{…}:` for sums: `quota:x` of acme is `%71uota:{acme}:x`.
 */
import type { Owner } from '../../kernel/store/store.ts'

/** Empty braces are the service's: no tenant id is empty. */
const OWNED = /^([^:/]*):\{([^{}]*)\}/
const COUNTING = 'quota'
const SUMMING = 'metrics'
const OF_TENANT = /^tenants\/([^/]*)\//

export class RedisKeys {
  readonly prefix: string

  constructor(prefix: string) {
    if (/[{}]/.test(prefix))
      throw new TypeError('The key prefix must not contain braces, because braces mark the tenant of a key')
    this.prefix = prefix
  }

  of(owner: Owner, key: string): string {
    const { head, rest } = parts(key)
    if (head === undefined) return `${this.prefix}tenants/${encoded(owner ?? '')}/${key}`
    return `${this.prefix}${ordinary(head)}:{${encoded(owner ?? '')}}${rest}`
  }

  /** Pattern that matches the key of any owner; it may match other keys, too. */
  patternOf(key: string): string {
    const { head, rest } = parts(key)
    if (head === undefined) return `${literal(this.prefix)}tenants/*/${literal(key)}`
    return `${literal(this.prefix)}${literal(ordinary(head))}:{*}${literal(rest)}`
  }

  /** Patterns that match the keys of a tenant; they may match other keys, too. */
  patternsOf(owner: string): readonly string[] {
    return [
      `${literal(this.prefix)}*:{${literal(encoded(owner))}}*`,
      `${literal(this.prefix)}tenants/${literal(encoded(owner))}/*`,
    ]
  }

  /** Returns the owner of a key; undefined for a foreign key. */
  ownerOf(redisKey: string): Owner | undefined {
    if (!redisKey.startsWith(this.prefix)) return undefined
    const own = redisKey.slice(this.prefix.length)
    const name = OF_TENANT.exec(own)?.[1] ?? OWNED.exec(own)?.[2]
    return name === undefined ? undefined : decodeURIComponent(name) || null
  }

  /** Key of a tenant's sums of a day; with null, of the set of tenants that have sums. */
  summing(owner: Owner, day: string): string {
    return `${this.prefix}${SUMMING}:{${encoded(owner ?? '')}}:${day}`
  }

  /** Keys of the counters of one tenant, all in one slot. */
  counting(tenantId: string): string {
    return `${this.prefix}${COUNTING}:{${encoded(tenantId)}}:`
  }
}

/** A key without a head has its slash before any colon. */
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
