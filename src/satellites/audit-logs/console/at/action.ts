/** Opens the page of a tenant at a time. */
import type { Action } from '../../../../console/module.ts'
import { text } from './text.ts'

export const showAt: Action = {
  name: 'auditLogs.showAt',
  title: text.showAt,
  target: 'tenant',
  needs: ['tenants.at', 'auditLogs.list'],
  view: () => import('./show.tsx'),
}
