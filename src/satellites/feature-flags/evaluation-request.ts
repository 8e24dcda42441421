/** What an evaluation over HTTP is asked with. The tenant is never a part of the native body: it is that of the path. */
import { z } from 'zod'
import { isStorableJson } from '../../kernel/base/postgres-text.ts'
import { REASONS } from './model/rollout.ts'

/** Not z.record: that drops a member named `__proto__`. */
export const JsonObject = z
  .unknown()
  .refine((value) => typeof value === 'object' && value !== null && !Array.isArray(value), {
    error: 'not a JSON object',
    abort: true,
  })
  .refine(isStorableJson, { error: 'holds NUL or half a character', abort: true })
  .meta({ type: 'object', additionalProperties: true }) as z.ZodType<Record<string, unknown>, Record<string, unknown>>

export const EvaluationRequest = z.strictObject({
  bucketKey: z
    .union([z.string(), z.number()])
    .optional()
    .meta({ description: 'Who or what stays on one side of a rollout; absent: the tenant', example: 'user-42' }),
  attributes: JsonObject.optional().meta({ description: "Where a flag's `bucketKey` finds its field" }),
})

export const EvaluationReply = z
  .object({
    enabled: z.boolean(),
    reason: z.enum(REASONS),
    bucket: z.number().int().nullable().meta({ description: '0 to 9999; null when no percentage decided' }),
    rolloutPercent: z.number().int().nullable(),
  })
  .meta({ id: 'FlagEvaluation' })
