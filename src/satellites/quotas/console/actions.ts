/** Actions on a quota: of a tenant, and in the ranking over tenants. */
import type { Action } from '../../../console/module.ts'
import { text } from './text.ts'

export const actions: readonly Action[] = [
  {
    name: 'quotas.setUsage',
    title: `${text.set}…`,
    target: 'quota',
    needs: ['quotas.setUsage'],
    view: () => import('./set-usage.tsx'),
  },
  {
    name: 'quotas.setPlan',
    title: `${text.plan}…`,
    target: 'quota',
    key: 'p',
    needs: ['tenants.setPlan', 'plans.list'],
    view: () => import('./set-plan.tsx'),
  },
  {
    name: 'quotas.reset',
    title: `${text.reset}…`,
    target: 'quota',
    needs: ['quotas.reset'],
    isDestructive: true,
    view: () => import('./reset.tsx'),
  },
]
