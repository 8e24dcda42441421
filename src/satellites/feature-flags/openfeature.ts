/**
 * Provider of the OpenFeature server SDK.
 *
 *   await OpenFeature.setProviderAndWait(tenantryProvider(tenancy.featureFlags))
 *   await OpenFeature.getClient().getBooleanValue('new-checkout', false, { tenantId: 'acme', targetingKey: 'user-42' })
 *
 * The tenant is `tenantId` of the evaluation context, `targetingKey` is the bucket key, and all members are attributes. Flags are
 * booleans; other types and unknown values resolve to the caller's default.
 */
import {
  ErrorCode,
  type EvaluationContext,
  type JsonValue,
  OpenFeatureEventEmitter,
  type Provider,
  type ResolutionDetails,
  ServerProviderEvents,
  StandardResolutionReasons,
} from '@openfeature/server-sdk'
import type { Explanation, FeatureFlags } from './feature-flags.ts'
import type { Reason } from './model/rollout.ts'

/** Reasons without those that are errors. */
const REASON_OF: Readonly<Record<Exclude<Reason, 'FLAG_NOT_FOUND' | 'ERROR'>, string>> = {
  STATIC: StandardResolutionReasons.STATIC,
  SPLIT: StandardResolutionReasons.SPLIT,
  DISABLED: StandardResolutionReasons.DISABLED,
  STALE: StandardResolutionReasons.STALE,
}

export function tenantryProvider(flags: Pick<FeatureFlags, 'evaluate' | 'onChange'>): Provider {
  const events = new OpenFeatureEventEmitter()
  const stopListening = flags.onChange((tenantId, keys) =>
    events.emit(ServerProviderEvents.ConfigurationChanged, {
      ...(tenantId === undefined ? {} : { metadata: { tenantId } }),
      ...(keys === undefined ? {} : { flagsChanged: [...keys] }),
    }),
  )
  return {
    metadata: { name: 'tenantry' },
    runsOn: 'server',
    events,
    onClose: async () => stopListening(),
    async resolveBooleanEvaluation(flagKey, defaultValue, context) {
      const { tenantId, targetingKey } = context
      if (typeof tenantId !== 'string') {
        return failed(defaultValue, ErrorCode.INVALID_CONTEXT, 'tenantId of the context must be the id of a tenant')
      }
      return resolved(
        await flags.evaluate(flagKey, { tenantId, bucketKey: targetingKey, attributes: context }),
        defaultValue,
      )
    },
    resolveStringEvaluation: async (_flagKey, defaultValue: string) => mismatched(defaultValue),
    resolveNumberEvaluation: async (_flagKey, defaultValue: number) => mismatched(defaultValue),
    resolveObjectEvaluation: async <T extends JsonValue>(
      _flagKey: string,
      defaultValue: T,
      _context: EvaluationContext,
    ) => mismatched(defaultValue),
  }
}

function resolved(
  { enabled, reason, bucket, rolloutPercent }: Explanation,
  defaultValue: boolean,
): ResolutionDetails<boolean> {
  if (reason === 'FLAG_NOT_FOUND') return failed(defaultValue, ErrorCode.FLAG_NOT_FOUND, 'the tenant has no such flag')
  if (reason === 'ERROR') return failed(defaultValue, ErrorCode.GENERAL, 'flags cannot be read at present')
  return {
    value: enabled,
    variant: enabled ? 'on' : 'off',
    reason: REASON_OF[reason],
    flagMetadata: { ...(bucket === null ? {} : { bucket }), ...(rolloutPercent === null ? {} : { rolloutPercent }) },
  }
}

const mismatched = <T>(value: T): ResolutionDetails<T> =>
  failed(value, ErrorCode.TYPE_MISMATCH, 'a flag must be a boolean')

const failed = <T>(value: T, errorCode: ErrorCode, errorMessage: string): ResolutionDetails<T> => ({
  value,
  reason: StandardResolutionReasons.ERROR,
  errorCode,
  errorMessage,
})
