/** The history of an object: key `h`. The state of a tenant at a time. */

import type { Action } from '../../../console/module.ts'
import { BASE, tenantHref } from '../../../console/routing/links.ts'
import { go } from '../../../console/routing/router.tsx'
import { showAt } from './at/action.ts'
import { text } from './text.ts'

/** Kinds of objects, with the targets of their entries. */
const KINDS: Readonly<Record<string, (object: any) => { readonly tenantId: string; readonly target: string }>> = {
  tenant: ({ id }) => ({ tenantId: id, target: `tenant:${id}` }),
  flag: ({ tenantId, key }) => ({ tenantId, target: `featureFlag:${key}` }),
  webhook: ({ tenantId, id }) => ({ tenantId, target: `webhook:${id}` }),
  quota: ({ tenantId }) => ({ tenantId, target: `quotas:${tenantId}` }),
}

const histories: readonly Action[] = Object.entries(KINDS).map(([kind, targetOf]) => ({
  name: `auditLogs.history.${kind}`,
  title: text.history,
  target: kind,
  needs: ['auditLogs.list'],
  key: 'h',
  isAvailable: (object) => targetOf(object).tenantId !== undefined,
  run: (object) => {
    const { tenantId, target } = targetOf(object)
    go(tenantHref(tenantId, 'audit', { target }).slice(BASE.length))
  },
}))

export const actions = [...histories, showAt]
