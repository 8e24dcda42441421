/** Sums of outcomes over the steps of statistics. */
import type { Result } from '../../../../console/api/contract.ts'

export const OUTCOMES = ['delivered', 'failed', 'waiting'] as const
export type Outcome = (typeof OUTCOMES)[number]

export const sumOf = (steps: Result<'webhooks.stats'>['data'], outcome: Outcome): number =>
  steps.reduce((total, one) => total + one[outcome], 0)
