/** A quota of a tenant as the screens see it. */
import type { Result } from '../../../console/api/contract.ts'
import type { Tone } from '../../../console/components/base/status.tsx'

export interface Quota {
  readonly tenantId: string
  readonly quota: string
  readonly usage: number
  /** Undefined: unlimited. */
  readonly limit: number | undefined
  readonly isGauge?: boolean
}

const WARNING_SHARE = 0.8

export const quotasOf = (tenantId: string, { limits, usage, gauges }: Result<'quotas.get'>): Quota[] =>
  [...new Set([...Object.keys(limits), ...Object.keys(usage)])].toSorted().map((quota) => ({
    tenantId,
    quota,
    usage: usage[quota] ?? 0,
    limit: limits[quota],
    isGauge: gauges.includes(quota),
  }))

/** Used part of the limit; a limit of 0 is exhausted. */
export const shareOf = ({ usage, limit }: Pick<Quota, 'usage' | 'limit'>): number | undefined =>
  limit === undefined ? undefined : limit > 0 ? usage / limit : 1

export const toneOf = (share: number | undefined): Tone =>
  share === undefined ? 'neutral' : share >= 1 ? 'bad' : share >= WARNING_SHARE ? 'warning' : 'good'
