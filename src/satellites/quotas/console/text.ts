/** Texts of the screens of quotas. */
import { counted, formatNumber } from '../../../console/components/base/text.ts'
import type { Forecast } from './forecast.ts'

const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 0 })
const rate = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })
const hour = new Intl.DateTimeFormat('en', { timeStyle: 'short', timeZone: 'UTC' })
const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' })

export const text = {
  quotas: 'Quotas',
  columns: {
    quota: 'Quota',
    use: 'Use',
    left: 'Left',
    tenant: 'Tenant',
    plan: 'Plan',
    share: 'Share',
    noted: 'As of',
  },
  percent: (share: number) => percent.format(share),
  used: (usage: number, limit: number | undefined) =>
    limit === undefined ? formatNumber(usage) : `${formatNumber(usage)} of ${formatNumber(limit)}`,
  unlimited: 'unlimited',
  barOf: (quota: string, usage: number, limit: number) =>
    `${quota}: ${formatNumber(usage)} of ${formatNumber(limit)}, ${percent.format(limit > 0 ? usage / limit : 1)}. Marks at 80 % and 100 %.`,
  forecast: (quota: string, { kind, rate: amount, at, days }: Forecast) =>
    kind === 'daily'
      ? `${at ? `Used up at about ${hour.format(at)} UTC` : 'Lasts until 00:00 UTC'}, at ${rate.format(amount)} an hour since 00:00 UTC.`
      : `${at ? `Used up on about ${day.format(at)}` : 'Lasts for a year or longer'}, at ${rate.format(amount)} a day: the average of the metric ${quota} in the last ${counted(days, 'full day')}.`,
  planOf: (plan: string) => `The limits are those of the plan ${plan}.`,
  empty: 'No quotas',
  emptyText: 'The plans of this service have no limits, and the tenant has no recorded use.',
  plans: 'Limits of all plans',
  presentPlan: 'present plan',
  set: 'Set use',
  setTitle: (quota: string) => `Set the use of ${quota}`,
  setText: 'The use keeps this value until it is set again, or counted by the host.',
  value: 'Use',
  save: 'Save',
  done: (quota: string, usage: number) => `${quota} is ${formatNumber(usage)}`,
  reset: 'Reset',
  resetTitle: (quota: string) => `Reset ${quota}?`,
  resetText: (tenant: string, usage: number) =>
    `The counter of today and the gauge become 0. The present use of ${formatNumber(usage)} is lost. Requests of ${tenant} are admitted up to the limit again.`,
  resetDone: (quota: string) => `${quota} is reset`,
  plan: 'Change plan',
  planTitle: (tenant: string) => `Change the plan of ${tenant}`,
  planField: 'Plan',
  planLimit: (plan: string, limit: number | undefined) =>
    `${plan} – ${limit === undefined ? 'unlimited' : formatNumber(limit)}`,
  planHint: (quota: string) => `With the limit of ${quota}.`,
  planChanged: (tenant: string, plan: string) => `${tenant} is on the plan ${plan}`,
  plansOfHost: 'The host application decides the plan of each tenant.',
  filters: { quota: 'Quota', above: 'Smallest share' },
  all: 'All',
  above: (share: number) => `${percent.format(share)} and more`,
  count: (count: number, hasMore: boolean) => `${hasMore ? 'At least ' : ''}${counted(count, 'quota')}`,
  emptyTop: 'No tenant uses this much of a limit',
  emptyTopText: 'Usage appears here from half of the smallest limit of all plans on, about a second after it changes.',
}
