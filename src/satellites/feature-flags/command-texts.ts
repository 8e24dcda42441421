/** Converts options of the commands, and explains an evaluation. */
import type { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import type { EvaluationReply } from './evaluation-request.ts'

export function whyOf({
  reason,
  enabled,
  bucket,
  rolloutPercent,
  value,
  valueFrom,
}: z.output<typeof EvaluationReply>): string {
  switch (reason) {
    case 'FLAG_NOT_FOUND':
      return 'the flag or the tenant does not exist'
    case 'DISABLED':
      return 'it is disabled for all contexts'
    case 'STATIC':
      return 'it is enabled for all contexts'
    case 'SPLIT': {
      const share = `${rolloutPercent} % ${rolloutPercent === 0 ? 'is no bucket' : `are the buckets below ${Number(rolloutPercent) * 100}`}`
      return `${JSON.stringify(value)} (${valueFrom}) has bucket ${bucket}; ${share}, so it is ${enabled ? 'on' : 'off'}`
    }
    case 'STALE':
      return 'the database is unavailable; this is the last known value'
    case 'ERROR':
      return 'the database is unavailable, and no value is known'
  }
}

/** The body of a change, of the given options. */
export function editsOf({ enabled, disabled, rolloutPercent, bucketKey }: Readonly<Record<string, any>>): unknown {
  if (enabled && disabled) throw invalid([{ path: 'enabled', message: 'Give either --enabled or --disabled.' }])
  return {
    ...(enabled || disabled ? { enabled: enabled === true } : {}),
    ...(rolloutPercent === undefined ? {} : { rolloutPercent: rolloutPercent === 'none' ? null : rolloutPercent }),
    ...(bucketKey === undefined ? {} : { bucketKey: bucketKey || null }),
  }
}

export function rollout(text: string): number | 'none' {
  if (text === 'none') return text
  if (/^\d{1,3}$/.test(text) && Number(text) <= 100) return Number(text)
  throw invalid([{ path: 'rollout', message: `"${text}" must be a whole number from 0 to 100, or none` }])
}

export function attribute(text: string): [name: string, value: string] {
  const at = text.indexOf('=')
  if (at < 0) throw invalid([{ path: 'attribute', message: `"${text}" must be name=value` }])
  return [text.slice(0, at), text.slice(at + 1)]
}
