/** A flag in the API, and the rules of its members. */
import { z } from 'zod'
import { invalid } from '../../../kernel/base/errors.ts'
import { parsed } from '../../../kernel/base/validate.ts'
import { isValidPostgresText } from '../../../kernel/database/postgres-text.ts'
import type { FlagRow } from './tables.ts'

const FLAG_KEY = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

export const isFlagKey = (key: unknown): key is string => typeof key === 'string' && FLAG_KEY.test(key)

export const FlagKey = z
  .string()
  .regex(FLAG_KEY, 'must be letters, digits, ".", "_" and "-", at most 128, starting with a letter or digit')
  .meta({ description: 'Name of the flag', example: 'new-checkout' })

const RolloutPercent = z.int().min(0).max(100)
const BucketKey = z
  .string()
  .min(1)
  .max(128)
  .refine(isValidPostgresText, 'must not contain NUL or an unpaired surrogate')
  .meta({ description: 'Field of the evaluation context whose value decides the bucket', example: 'userId' })

/** Changeable members of a flag. */
export const FlagSettings = z.object({
  enabled: z.boolean().meta({ description: 'False: off for every context' }),
  rolloutPercent: RolloutPercent.nullable().meta({ description: 'Null: only `enabled` decides' }),
  bucketKey: BucketKey.nullable(),
})
export type FlagSettings = z.output<typeof FlagSettings>

/** Request body of a change of single members. */
export const FlagEdits = z.strictObject(FlagSettings.partial().shape)

/** Request body: complete state, in either spelling. */
export const FlagBody = z.strictObject({
  enabled: FlagSettings.shape.enabled,
  rolloutPercent: RolloutPercent.nullish(),
  bucketKey: BucketKey.nullish(),
  rollout_percent: RolloutPercent.nullish().meta({ description: 'The same as `rolloutPercent`' }),
  bucket_key: BucketKey.nullish().meta({ description: 'The same as `bucketKey`' }),
})
export type FlagRequest = z.input<typeof FlagBody>

/** An absent member is null. @throws E_INVALID_REQUEST if two spellings of a member differ */
export function settingsOf(request: FlagRequest): FlagSettings {
  const body = parsed(FlagBody, request)
  return {
    enabled: body.enabled,
    rolloutPercent: oneOf('rolloutPercent', body.rolloutPercent, 'rollout_percent', body.rollout_percent),
    bucketKey: oneOf('bucketKey', body.bucketKey, 'bucket_key', body.bucket_key),
  }
}

export const FeatureFlag = z
  .object({
    id: z.uuid(),
    tenantId: z.string(),
    key: z.string(),
    enabled: z.boolean(),
    rolloutPercent: z.number().int().nullable(),
    bucketKey: z.string().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: 'FeatureFlag' })
export type FeatureFlag = z.output<typeof FeatureFlag>

/** Number of tenants that have a flag with a key, by its state. */
export const FlagKeyCounts = z
  .object({
    key: z.string(),
    tenants: z.number().int().meta({ description: 'Tenants that have the flag' }),
    on: z.number().int().meta({ description: 'Tenants for which it is on without a percentage' }),
    inRollout: z.number().int().meta({ description: 'Tenants for which it is on for a percentage' }),
    off: z.number().int().meta({ description: 'Tenants for which it is off' }),
  })
  .meta({ id: 'FlagKeyCounts' })
export type FlagKeyCounts = z.output<typeof FlagKeyCounts>

export interface FlagFilter {
  readonly enabled?: boolean | undefined
}

export const toFlag = (row: FlagRow): FeatureFlag => ({
  ...row,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
})

export const settingsIn = ({ enabled, rolloutPercent, bucketKey }: FlagSettings): FlagSettings => ({
  enabled,
  rolloutPercent,
  bucketKey,
})

function oneOf<T>(camel: string, value: T | undefined, snake: string, other: T | undefined): T | null {
  if (value !== undefined && other !== undefined && value !== other) {
    throw invalid([{ path: snake, message: `must be equal to ${camel}` }])
  }
  return value ?? other ?? null
}

export const sameSettings = (one: FlagSettings, other: FlagSettings): boolean =>
  one.enabled === other.enabled && one.rolloutPercent === other.rolloutPercent && one.bucketKey === other.bucketKey
