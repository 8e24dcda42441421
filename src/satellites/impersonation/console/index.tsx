/** Console module of impersonation. */
import { defineConsoleModule } from '../../../console/module.ts'
import { actions, keys } from './actions.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'impersonation',
  screens: [
    {
      path: '/impersonations',
      title: text.impersonations,
      needs: ['impersonations.listAll'],
      search: 'impersonations.listAll',
      navigation: { icon: 'person', order: 75 },
      view: () => import('./all.tsx'),
    },
  ],
  tabs: [
    {
      path: 'impersonations',
      title: text.impersonations,
      needs: ['impersonations.list'],
      search: 'impersonations.list',
      order: 90,
      view: () => import('./of-tenant.tsx'),
    },
  ],
  header: [{ needs: ['impersonations.list'], view: () => import('./header.tsx') }],
  bars: [{ needs: ['impersonations.listAll', 'impersonations.end'], view: () => import('./bar.tsx') }],
  actions,
  keys,
})
