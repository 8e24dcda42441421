/** Console module of the tenants. */
import { defineConsoleModule } from '../../console/module.ts'
import { actions } from './actions.ts'
import { text } from './text.ts'

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
      view: () => import('./list.tsx'),
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
    { path: 'settings', title: text.settings, needs: ['tenants.get'], order: 95, view: () => import('./settings.tsx') },
  ],
  actions,
})
