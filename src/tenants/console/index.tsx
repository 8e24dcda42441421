/** Console module of the tenants. */
import { defineConsoleModule } from '../../console/module.ts'
import { actions } from './actions.ts'
import { text } from './base/text.ts'
import { migrationActions } from './migrations/actions.ts'
import { text as migrationText } from './migrations/text.ts'
import { restorations } from './restorations.ts'
import { transferActions } from './transfers/actions.ts'
import { text as transferText } from './transfers/text.ts'

const ADOPTION = 'Commands show the plan of an adoption, and execute exactly this plan'
const ERASURE = 'An erasure cannot be undone, as a purge: a command executes it, and prints the signed report'

export default defineConsoleModule({
  name: 'tenants',
  screens: [
    {
      path: '/tenants',
      title: text.tenants,
      needs: ['tenants.list'],
      search: 'tenants.list',
      navigation: { icon: 'tenants', order: 10 },
      key: 't',
      view: () => import('./list/list.tsx'),
    },
    {
      path: '/transfers',
      title: transferText.transfers,
      needs: ['transfers.listAll'],
      search: 'transfers.listAll',
      navigation: { icon: 'transfers', order: 80 },
      view: () => import('./transfers/list.tsx'),
    },
    {
      path: '/migrations',
      title: migrationText.migrations,
      needs: ['migrations.status'],
      navigation: { icon: 'migrations', order: 82 },
      view: () => import('./migrations/screen.tsx'),
    },
    {
      path: '/plans',
      title: text.plans,
      needs: ['plans.list'],
      navigation: { icon: 'plans', order: 85 },
      view: () => import('./plans.tsx'),
    },
  ],
  tenantFrame: () => import('./page.tsx'),
  tabs: [
    {
      path: '',
      title: text.overview,
      needs: ['tenants.get'],
      search: 'timeline.list',
      order: 0,
      view: () => import('./overview.tsx'),
    },
    {
      path: 'storage',
      title: transferText.storage,
      needs: ['tenants.get', 'backups.list'],
      order: 10,
      view: () => import('./transfers/storage.tsx'),
    },
    {
      path: 'transfers/{transferId}',
      title: transferText.transfer,
      isListed: false,
      needs: ['transfers.get'],
      view: () => import('./transfers/transfer.tsx'),
    },
    { path: 'settings', title: text.settings, needs: ['tenants.get'], order: 95, view: () => import('./settings.tsx') },
  ],
  home: [
    { needs: ['tenants.create', 'tenants.list'], order: 0, view: () => import('./first-tenant.tsx') },
    { needs: ['transfers.listAll'], order: 10, view: () => import('./transfers/running.tsx') },
  ],
  actions: [...actions, ...transferActions, ...migrationActions],
  restorations,
  announced: ['tenants.get', 'tenants.list', 'plans.list'],
  notShown: {
    'tenants.planAdoption': ADOPTION,
    'tenants.adopt': ADOPTION,
    'tenants.release': ADOPTION,
    'tenants.planTableAdoption': ADOPTION,
    'tenants.adoptTables': ADOPTION,
    'tenants.releaseTables': ADOPTION,
    'tenants.erase': ERASURE,
    'erasures.get': ERASURE,
    'bulk.list': 'The list of tenants follows the job that it has started',
    'outbox.mark': 'For programs of hosts that write entries without Tenantry',
    'outbox.relay': 'For programs of hosts that write entries without Tenantry',
  },
})
