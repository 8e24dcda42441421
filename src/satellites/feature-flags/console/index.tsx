/** Console module of feature flags. */
import { defineConsoleModule } from '../../../console/module.ts'
import { actions } from './actions.ts'
import { restoration } from './restoration.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'featureFlags',
  screens: [
    {
      path: '/flags',
      title: text.flags,
      needs: ['featureFlags.listKeys'],
      search: 'featureFlags.listKeys',
      navigation: { icon: 'flags', order: 30 },
      key: 'f',
      view: () => import('./keys.tsx'),
    },
    {
      path: '/flags/{key}',
      title: text.flag,
      needs: ['featureFlags.listTenants'],
      search: 'featureFlags.listTenants',
      view: () => import('./key.tsx'),
    },
  ],
  tabs: [
    {
      path: 'flags',
      title: text.flags,
      needs: ['featureFlags.list'],
      search: 'featureFlags.list',
      order: 20,
      view: () => import('./list.tsx'),
    },
    {
      path: 'flags/{key}',
      title: text.flag,
      isListed: false,
      needs: ['featureFlags.get'],
      view: () => import('./flag.tsx'),
    },
  ],
  actions,
  restorations: [restoration],
  announced: ['featureFlags.list', 'featureFlags.get'],
  palette: [
    {
      needs: ['featureFlags.listKeys', 'featureFlags.get', 'tenants.list'],
      find: async (query, signal) => (await import('./palette.ts')).findFlags(query, signal),
    },
  ],
  notShown: {
    'ofrep.evaluate': 'Requests of hosts; the page of a flag shows more',
    'ofrep.evaluateAll': 'Requests of hosts; the page of a flag shows more',
  },
})
