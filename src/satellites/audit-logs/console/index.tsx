/** Console module of the audit log. */
import { defineConsoleModule } from '../../../console/module.ts'
import { actions } from './actions.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'auditLogs',
  screens: [
    {
      path: '/audit',
      title: text.audit,
      needs: ['auditLogs.listAll'],
      search: 'auditLogs.listAll',
      navigation: { icon: 'audit', order: 60 },
      key: 'a',
      view: () => import('./log.tsx'),
    },
  ],
  tabs: [
    {
      path: 'audit',
      title: text.audit,
      needs: ['auditLogs.list'],
      search: 'auditLogs.list',
      order: 60,
      view: () => import('./log.tsx'),
    },
  ],
  tenantAt: { needs: ['tenants.at', 'auditLogs.list'], view: () => import('./at/page.tsx') },
  home: [{ needs: ['auditLogs.listAll'], order: 60, view: () => import('./last-actions.tsx') }],
  actions,
})
