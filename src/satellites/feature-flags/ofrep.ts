/**
 * The OpenFeature Remote Evaluation Protocol 0.3, which OFREP providers of any language use. The tenant is `tenantId` of the context,
 * `targetingKey` is the `bucketKey`, and other members are attributes.
 *
 * - Errors are problems with additional members of the protocol (`key`, `errorCode`, `errorDetails`).
 * - Without a targeting key, the tenant decides a rollout.
 * - An unknown value is an error, so that the client's default applies; never a guess.
 */
import { z } from 'zod'
import { entityTag, matchesNone } from '../../kernel/api/entity-tags.ts'
import { Reply } from '../../kernel/api/operation.ts'
import {
  DependencyUnavailable,
  type ErrorExtras,
  type InputError,
  InvalidRequest,
  type TenancyError,
} from '../../kernel/base/errors.ts'
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'
import { JsonObject } from './evaluation-request.ts'
import type { Explanation } from './feature-flags.ts'
import { FlagNotFound } from './model/errors.ts'
import { FlagKey } from './model/flag.ts'
import { type EvaluationContext, REASONS } from './model/rollout.ts'
import { operation } from './part.ts'

const Context = JsonObject.check(({ value, issues }) => {
  const { tenantId, targetingKey } = ownOf(value)
  const fault = (path: string, message: string) => issues.push({ code: 'custom', message, path: [path], input: value })
  if (typeof tenantId !== 'string' || !TENANT_ID.test(tenantId)) fault('tenantId', 'must be the id of a tenant')
  if (targetingKey !== undefined && typeof targetingKey !== 'string') fault('targetingKey', 'must be a string')
}).meta({
  type: 'object',
  additionalProperties: true,
  description: '`tenantId` is required; `targetingKey` is the bucket key; other members are attributes',
  example: { tenantId: 'acme', targetingKey: 'user-42', plan: 'pro' },
})

const OfrepRequest = z.looseObject({ context: Context })

const OfrepEvaluation = z
  .object({
    key: z.string(),
    value: z.boolean(),
    reason: z.enum(REASONS),
    variant: z.enum(['on', 'off']),
    metadata: z.object({ bucket: z.number().int().optional(), rolloutPercent: z.number().int().optional() }),
  })
  .meta({ id: 'OfrepEvaluation' })

export const ofrepOperations = [
  operation({
    name: 'ofrep.evaluate',
    method: 'POST',
    path: '/ofrep/v1/evaluate/flags/{key}',
    summary: 'Evaluate a flag by OFREP',
    params: z.object({ key: FlagKey }),
    body: OfrepRequest,
    reply: OfrepEvaluation,
    errors: [FlagNotFound],
    scope: 'runtime',
    problemMembers,
    handle: async (flags, { params, body }) => {
      const explanation = await flags.evaluate(params.key, contextOf(body.context))
      if (explanation.reason === 'FLAG_NOT_FOUND') throw FlagNotFound('This tenant has no such flag.')
      if (explanation.reason === 'ERROR') throw DependencyUnavailable('Flags cannot be read at present.')
      return evaluationOf(explanation)
    },
  }),
  operation({
    name: 'ofrep.evaluateAll',
    method: 'POST',
    path: '/ofrep/v1/evaluate/flags',
    summary: 'Evaluate all flags of a tenant by OFREP',
    description: 'The response has an `ETag`; with `If-None-Match`, an unchanged response is a 304.',
    body: OfrepRequest,
    reply: z.object({ flags: z.array(OfrepEvaluation) }),
    alsoStatus: [304],
    replyHeaders: { ETag: 'Of the response; strong' },
    scope: 'runtime',
    problemMembers,
    handle: async (flags, { body, headers }) => {
      const reply = { flags: (await flags.explainAll(contextOf(body.context))).map(evaluationOf) }
      const etag = entityTag(JSON.stringify(reply))
      return matchesNone(headers.get('if-none-match'), etag)
        ? new Reply(200, reply, { etag })
        : new Reply(304, undefined as never, { etag })
    },
  }),
]

function contextOf(context: Record<string, unknown>): EvaluationContext {
  const { tenantId, targetingKey } = ownOf(context)
  return { tenantId: tenantId as string, bucketKey: targetingKey as string | undefined, attributes: context }
}

/** Own members only. */
const ownOf = (context: object): { tenantId?: unknown; targetingKey?: unknown } =>
  Object.fromEntries(Object.entries(context).filter(([name]) => name === 'tenantId' || name === 'targetingKey'))

const evaluationOf = ({ key, enabled, reason, bucket, rolloutPercent }: Explanation) => ({
  key,
  value: enabled,
  reason,
  variant: enabled ? ('on' as const) : ('off' as const),
  metadata: { bucket: bucket ?? undefined, rolloutPercent: rolloutPercent ?? undefined },
})

function problemMembers(error: TenancyError, { key }: Readonly<Record<string, string>>): ErrorExtras {
  return { ...(key === undefined ? {} : { key }), errorCode: errorCodeOf(error), errorDetails: error.message }
}

function errorCodeOf({ code, extras }: TenancyError): string {
  if (code === FlagNotFound.code) return 'FLAG_NOT_FOUND'
  if (code === 'E_INVALID_JSON') return 'PARSE_ERROR'
  if (code !== InvalidRequest.code) return 'GENERAL'
  const errors = (extras.errors ?? []) as readonly InputError[]
  return errors.some(({ path }) => path.startsWith('context')) ? 'INVALID_CONTEXT' : 'PARSE_ERROR'
}
