/** Console module of the audit log. */
import { defineConsoleModule } from '../../../console/module.ts'
import { href } from '../../../console/routing/links.ts'
import { actions } from './actions.ts'
import { text } from './text.ts'

const HOUR_MS = 3_600_000

/** The changes over all tenants in the hour before a time, as absolute times. */
const hourBefore = (since: string): string => {
  const end = Date.parse(since)
  return href('/audit', { from: new Date(end - HOUR_MS).toISOString(), to: new Date(end).toISOString() })
}

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
  incidentLinks: [{ title: text.hourBefore, needs: ['auditLogs.listAll'], hrefOf: hourBefore }],
  actions,
})
