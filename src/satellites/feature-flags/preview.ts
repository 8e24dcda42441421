/**
 * Evaluates a rollout that is not saved for many values, such as ids of users. It reads the present flag for members that the request
 * lacks, and changes nothing.
 */
import { z } from 'zod'
import { isValidPostgresText } from '../../kernel/database/postgres-text.ts'
import { FlagEdits } from './model/flag.ts'
import { bucketOf, evaluate, type FlagRule, onFromPercent } from './model/rollout.ts'

const MAX_VALUES = 1_000

const Value = z
  .union([z.string().max(256), z.number()])
  .transform(String)
  .refine(isValidPostgresText, 'must not contain NUL or an unpaired surrogate')

export const PreviewRequest = z.strictObject({
  enabled: FlagEdits.shape.enabled.meta({ description: 'Absent: as in the present flag; off without a flag' }),
  rolloutPercent: FlagEdits.shape.rolloutPercent.meta({
    description: 'Null: only `enabled` decides. Absent: as in the present flag',
  }),
  bucketKeys: z
    .array(Value)
    .min(1)
    .max(MAX_VALUES)
    .meta({
      description:
        "Values that decide the rollout: the caller's `bucketKey`, or values of the field that the flag names",
      example: ['user-42'],
    }),
})
export type PreviewRequest = z.input<typeof PreviewRequest>

export const FlagPreview = z
  .object({
    enabled: z.boolean(),
    rolloutPercent: z.number().int().nullable(),
    on: z.number().int().meta({ description: 'Number of values for which the flag is on' }),
    data: z.array(
      z.object({
        value: z.string(),
        enabled: z.boolean(),
        reason: z.enum(['STATIC', 'SPLIT', 'DISABLED']),
        bucket: z.number().int().meta({ description: '0 to 9999' }),
        onFromPercent: z
          .number()
          .int()
          .meta({ description: 'The lowest percentage with which an enabled flag is on for the value, 1 to 100' }),
      }),
    ),
  })
  .meta({ id: 'FlagPreview' })
export type FlagPreview = z.output<typeof FlagPreview>

/** @param rule whose percentage decides by the values themselves, regardless of their source */
export function previewOf(rule: Omit<FlagRule, 'bucketKey'>, values: readonly string[]): FlagPreview {
  const { enabled, rolloutPercent } = rule
  const data = values.map((value) => {
    const context = { tenantId: '', bucketKey: value }
    const evaluation = evaluate({ ...rule, bucketKey: null }, context)
    const bucket = bucketOf(rule.key, value)
    return {
      value,
      enabled: evaluation.enabled,
      reason: evaluation.reason as 'SPLIT',
      bucket,
      onFromPercent: onFromPercent(bucket),
    }
  })
  return { enabled, rolloutPercent, on: data.filter((one) => one.enabled).length, data }
}
