/**
 * Whether a flag is on, and why. No database, no clock, no chance: the same flag and context always have the same answer.
 *
 *   no such flag               off   FLAG_NOT_FOUND
 *   enabled = false            off   DISABLED
 *   rolloutPercent = null      on    STATIC
 *   else                       SPLIT: on when bucket < rolloutPercent * 100
 *
 *   bucket = XXH64(utf8(key + ":" + value), seed 0) mod 10000
 *
 * The key is a part of what is hashed, so that two flags of the same percentage do not pick the same users. The value is one of
 * these, the first that is there: the field that the flag's `bucketKey` names, of the caller's attributes, or `tenantId` itself;
 * the caller's `bucketKey`; the tenant's id. Strings count as they are, the empty one too; numbers as `String()` writes them;
 * anything else, a boolean or null, is no value. Half a surrogate pair is hashed as U+FFFD.
 *
 * Raising a percentage only adds: whoever was in stays in. Vectors for other languages are in docs/flag-vectors.json.
 */
import xxhash from 'xxhash-wasm'

const { h64 } = await xxhash()

export const BUCKETS = 10_000

/** `STALE`: the last known value, as the database is away. `ERROR`: nothing was known. */
export const REASONS = ['STATIC', 'SPLIT', 'DISABLED', 'FLAG_NOT_FOUND', 'STALE', 'ERROR'] as const
export type Reason = (typeof REASONS)[number]

/** What of a flag decides. */
export interface FlagRule {
  readonly key: string
  readonly enabled: boolean
  /** 0 to 100; null: `enabled` alone decides. */
  readonly rolloutPercent: number | null
  /** The field of the context whose value is hashed; null: the caller's `bucketKey`. */
  readonly bucketKey: string | null
}

/** A rule with what need not be made again for each evaluation. */
export interface PreparedRule extends FlagRule {
  /** The key and the colon. */
  readonly prefix: string
}

export const prepared = (rule: FlagRule): PreparedRule => ({ ...rule, prefix: `${rule.key}:` })

export interface EvaluationContext {
  readonly tenantId: string
  /** Who or what stays on one side of a rollout, say a user's id. */
  readonly bucketKey?: string | number | undefined
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
}

export interface Evaluation {
  readonly enabled: boolean
  readonly reason: Reason
  /** Where the value falls, 0 to 9999; null when nothing was hashed. */
  readonly bucket: number | null
  readonly rolloutPercent: number | null
}

export const NOT_FOUND: Evaluation = { enabled: false, reason: 'FLAG_NOT_FOUND', bucket: null, rolloutPercent: null }

export function evaluate(flag: FlagRule | undefined, context: EvaluationContext): Evaluation {
  if (flag === undefined) return NOT_FOUND
  const { enabled, rolloutPercent } = flag
  if (!enabled) return { enabled: false, reason: 'DISABLED', bucket: null, rolloutPercent }
  if (rolloutPercent === null) return { enabled: true, reason: 'STATIC', bucket: null, rolloutPercent }
  const bucket = bucketOf(flag.key, hashedOf(flag, context))
  return { enabled: isWithin(bucket, rolloutPercent), reason: 'SPLIT', bucket, rolloutPercent }
}

/** The part of `evaluate` that is left when it is known that the percentage decides; it makes nothing but the bucket. */
export const isInRollout = (flag: PreparedRule, rolloutPercent: number, context: EvaluationContext): boolean =>
  isWithin(modulo(h64(flag.prefix + hashedOf(flag, context))), rolloutPercent)

/** @param value what stays in one bucket */
export const bucketOf = (key: string, value: string): number => modulo(h64(`${key}:${value}`))

/** What is hashed for a context, and what it was: an attribute of this name, `bucketKey` or `tenantId`. */
export function sourceOf(flag: FlagRule, context: EvaluationContext): { value: string; from: string } {
  const named = namedValue(flag.bucketKey, context)
  if (named !== undefined) return { value: named, from: flag.bucketKey ?? '' }
  const given = asValue(context.bucketKey)
  return given === undefined ? { value: context.tenantId, from: 'tenantId' } : { value: given, from: 'bucketKey' }
}

function hashedOf(flag: FlagRule, context: EvaluationContext): string {
  if (flag.bucketKey !== null) {
    const named = namedValue(flag.bucketKey, context)
    if (named !== undefined) return named
  }
  return asValue(context.bucketKey) ?? context.tenantId
}

/** Of own fields only: what every object inherits (`constructor`) is nobody's attribute. */
function namedValue(name: string | null, { attributes, tenantId }: EvaluationContext): string | undefined {
  if (name === null) return undefined
  const own = attributes && Object.hasOwn(attributes, name) ? asValue(attributes[name]) : undefined
  return own ?? (name === 'tenantId' ? tenantId : undefined)
}

function asValue(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : undefined
}

const isWithin = (bucket: number, rolloutPercent: number): boolean => bucket < rolloutPercent * 100

const hash = new BigUint64Array(1)
const halves = new Uint32Array(hash.buffer)
hash[0] = 1n
const LOW = halves[0] === 1 ? 0 : 1
const HIGH = 1 - LOW

/**
 * By halves, 2^32 mod 10000 being 7296: dividing a bigint makes another one, which costs a third of the hash. The numbers stand
 * here as they are because only those are known to the compiler.
 */
function modulo(hashed: bigint): number {
  hash[0] = hashed
  return (((halves[HIGH] as number) % 10_000) * 7_296 + ((halves[LOW] as number) % 10_000)) % 10_000
}
