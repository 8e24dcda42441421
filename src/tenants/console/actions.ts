/** Actions on a tenant: life cycle, maintenance. */
import { runAction } from '../../console/data/queries.ts'
import type { Action } from '../../console/module.ts'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

const inputOf = ({ id }: Tenant) => ({ params: { id } })

export const actions: readonly Action<Tenant>[] = [
  {
    name: 'tenants.activate',
    title: text.activate,
    target: 'tenant',
    needs: ['tenants.activate'],
    isAvailable: ({ status }) => status === 'suspended',
    run: (tenant) => runAction('tenants.activate', inputOf(tenant), { done: text.activated(tenant.name) }),
  },
  {
    name: 'tenants.install',
    title: text.install,
    target: 'tenant',
    needs: ['tenants.activate'],
    isAvailable: ({ status }) => status === 'failed',
    run: (tenant) => runAction('tenants.activate', inputOf(tenant), { done: text.created(tenant.name) }),
  },
  {
    name: 'tenants.restore',
    title: text.restore,
    target: 'tenant',
    needs: ['tenants.restore'],
    isAvailable: ({ status }) => status === 'deleted',
    run: (tenant) => runAction('tenants.restore', inputOf(tenant), { done: text.restored(tenant.name) }),
  },
  {
    name: 'tenants.enterMaintenance',
    title: text.enterMaintenance,
    target: 'tenant',
    needs: ['tenants.enterMaintenance'],
    isAvailable: ({ status, maintenance }) => status === 'active' && !maintenance,
    view: () => import('./maintenance.tsx'),
  },
  {
    name: 'tenants.exitMaintenance',
    title: text.exitMaintenance,
    target: 'tenant',
    needs: ['tenants.exitMaintenance'],
    isAvailable: ({ maintenance }) => maintenance !== null,
    run: (tenant) =>
      runAction('tenants.exitMaintenance', inputOf(tenant), {
        done: text.maintenanceEnded(tenant.name),
        optimistic: () => ({ id: tenant.id, patch: { maintenance: null } }),
        undo: () => {
          const { message, retryAfterSeconds } = tenant.maintenance ?? { message: null, retryAfterSeconds: 60 }
          return runAction('tenants.enterMaintenance', { ...inputOf(tenant), body: { message, retryAfterSeconds } })
        },
      }),
  },
  {
    name: 'tenants.suspend',
    title: `${text.suspend}…`,
    target: 'tenant',
    needs: ['tenants.suspend'],
    isDestructive: true,
    isAvailable: ({ status }) => status === 'active',
    view: () => import('./suspend.tsx'),
  },
  {
    name: 'tenants.delete',
    title: `${text.delete}…`,
    target: 'tenant',
    needs: ['tenants.delete'],
    isDestructive: true,
    isAvailable: ({ status }) => status !== 'deleted',
    view: () => import('./delete.tsx'),
  },
]
