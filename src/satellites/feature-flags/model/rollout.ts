/**
 * Evaluates a flag. A pure function: the same rule and context always have the same result.
 *
 *   unknown flag               off   FLAG_NOT_FOUND
 *   enabled = false            off   DISABLED
 *   rolloutPercent = null      on    STATIC
 *   otherwise                  SPLIT: on if bucket < rolloutPercent * 100
 *
 *   bucket = XXH64(utf8(key + ":" + value), seed 0) mod 10000
 *
 * - The key is part of the hash, so flags with equal percentages select different contexts.
 * - The value is the first that exists: the field that the flag's `bucketKey` names (an attribute, or `tenantId`), the caller's
 *   `bucketKey`, the tenant's id. Strings count unchanged, also the empty one; numbers as `String()` writes them; other types do not
 *   count. An unpaired surrogate is hashed as U+FFFD.
 * - A higher percentage only adds contexts. docs/flag-vectors.json has vectors for other languages.
 */
import xxhash from 'xxhash-wasm'

const { h64 } = await xxhash()

export const BUCKETS = 10_000

/** `STALE`: the last known value during an outage of the database. `ERROR`: no value was known. */
export const REASONS = ['STATIC', 'SPLIT', 'DISABLED', 'FLAG_NOT_FOUND', 'STALE', 'ERROR'] as const
export type Reason = (typeof REASONS)[number]

/** Members of a flag that decide. */
export interface FlagRule {
  readonly key: string
  readonly enabled: boolean
  /** 0 to 100; null: only `enabled` decides. */
  readonly rolloutPercent: number | null
  /** Field of the context whose value is hashed; null: the caller's `bucketKey`. */
  readonly bucketKey: string | null
}

/** A rule with precomputed parts. */
export interface PreparedRule extends FlagRule {
  /** The key and the colon. */
  readonly prefix: string
}

export const prepared = (rule: FlagRule): PreparedRule => ({ ...rule, prefix: `${rule.key}:` })

export interface EvaluationContext {
  readonly tenantId: string
  /** Value that stays on one side of a rollout, such as a user id. */
  readonly bucketKey?: string | number | undefined
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
}

export interface Evaluation {
  readonly enabled: boolean
  readonly reason: Reason
  /** Bucket of the value, 0 to 9999; null without a hash. */
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

/** The part of `evaluate` for a rule with a percentage; allocates only the bucket. */
export const isInRollout = (flag: PreparedRule, rolloutPercent: number, context: EvaluationContext): boolean =>
  isWithin(modulo(h64(flag.prefix + hashedOf(flag, context))), rolloutPercent)

/** @param value with a stable bucket */
export const bucketOf = (key: string, value: string): number => modulo(h64(`${key}:${value}`))

/** The lowest percentage with which a bucket is on. */
export const onFromPercent = (bucket: number): number => Math.floor(bucket / (BUCKETS / 100)) + 1

/** The hashed value of a context, and its source: an attribute of this name, `bucketKey` or `tenantId`. */
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

/** Own members only: an inherited one (`constructor`) is no attribute. */
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
 * By halves: 2^32 mod 10000 is 7296. The division of a bigint would allocate another one, a third of the hash's time. The numbers are
 * literals because the compiler optimizes only those.
 */
function modulo(hashed: bigint): number {
  hash[0] = hashed
  return (((halves[HIGH] as number) % 10_000) * 7_296 + ((halves[LOW] as number) % 10_000)) % 10_000
}
