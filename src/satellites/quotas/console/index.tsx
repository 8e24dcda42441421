/** Console module of quotas. */
import { defineConsoleModule } from '../../../console/module.ts'
import { actions } from './actions.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'quotas',
  screens: [
    {
      path: '/quotas',
      title: text.quotas,
      needs: ['quotas.top'],
      search: 'quotas.top',
      navigation: { icon: 'quotas', order: 40 },
      key: 'q',
      view: () => import('./top.tsx'),
    },
  ],
  tabs: [{ path: 'quotas', title: text.quotas, needs: ['quotas.get'], order: 40, view: () => import('./tenant.tsx') }],
  cards: [{ needs: ['quotas.get'], order: 10, view: () => import('./card.tsx') }],
  columns: [
    {
      key: 'quotas',
      title: text.tenantColumn,
      needs: ['quotas.top'],
      read: 'quotas.top',
      input: { query: { above: '0.8', limit: 200 } },
      view: () => import('./column.tsx'),
    },
  ],
  actions,
  notShown: {
    'quotas.consume': 'Requests of hosts: a button would count usage that did not happen',
    'quotas.consumeAll': 'Requests of hosts: a button would count usage that did not happen',
    'quotas.track': 'Requests of hosts: a button would count usage that did not happen',
    'quotas.check': 'The bar of a quota shows the remaining amount',
  },
})
