/** Body of an evaluation over HTTP. The tenant comes from the path, never from the native body. */
import { z } from 'zod'
import { isValidPostgresJson } from '../../kernel/database/postgres-text.ts'
import { REASONS } from './model/rollout.ts'

/** Not z.record, which drops a member named `__proto__`. */
export const JsonObject = z
  .unknown()
  .refine((value) => typeof value === 'object' && value !== null && !Array.isArray(value), {
    error: 'must be a JSON object',
    abort: true,
  })
  .refine(isValidPostgresJson, { error: 'must not contain NUL or an unpaired surrogate', abort: true })
  .meta({ type: 'object', additionalProperties: true }) as z.ZodType<Record<string, unknown>, Record<string, unknown>>

export const EvaluationRequest = z.strictObject({
  bucketKey: z
    .union([z.string(), z.number()])
    .optional()
    .meta({ description: 'Value that decides a rollout; absent: the tenant', example: 'user-42' }),
  attributes: JsonObject.optional().meta({ description: "Fields for a flag's `bucketKey`" }),
})

export const EvaluationReply = z
  .object({
    key: z.string(),
    enabled: z.boolean(),
    reason: z.enum(REASONS),
    bucket: z.number().int().nullable().meta({ description: '0 to 9999; null if no percentage decided' }),
    rolloutPercent: z.number().int().nullable(),
    value: z.string().nullable().meta({ description: 'Value that has the bucket; null without a bucket' }),
    valueFrom: z
      .string()
      .nullable()
      .meta({ description: 'Source of `value`: `bucketKey`, `tenantId`, or the name of an attribute' }),
  })
  .meta({ id: 'FlagEvaluation' })
