/**
 * The history of an object: key `h`. It opens the newest change, with its author and the former value. And the action that shows a
 * tenant at a time.
 */
import { call } from '../../../console/data/call.ts'
import type { Action } from '../../../console/module.ts'
import { href, tenantHref } from '../../../console/routing/links.ts'
import { goTo } from '../../../console/routing/router.tsx'
import { showAt } from './at/action.ts'
import { text } from './text.ts'

interface Logged {
  /** Null: an object of no tenant. */
  readonly tenantId: string | null
  /** Target of its entries. */
  readonly target: string
}

/** Kinds of objects. */
const KINDS: Readonly<Record<string, (object: any) => Logged>> = {
  tenant: ({ id }) => ({ tenantId: id, target: `tenant:${id}` }),
  flag: ({ tenantId, key }) => ({ tenantId, target: `featureFlag:${key}` }),
  webhook: ({ tenantId, webhookId }) => ({ tenantId, target: `webhook:${webhookId}` }),
  'host-webhook': ({ webhookId }) => ({ tenantId: null, target: `webhook:${webhookId}` }),
  quota: ({ tenantId }) => ({ tenantId, target: `quotas:${tenantId}` }),
  backup: ({ id, tenantId }) => ({ tenantId, target: `backup:${id}` }),
  transfer: ({ id, tenantId }) => ({ tenantId, target: `transfer:${id}` }),
  impersonation: ({ sessionId, tenantId }) => ({ tenantId, target: `impersonation:${sessionId}` }),
  token: ({ id }) => ({ tenantId: null, target: `token:${id}` }),
}

async function openHistory({ tenantId, target }: Logged): Promise<void> {
  const query = { target, limit: 1 }
  const newest =
    tenantId === null
      ? call('auditLogs.listAll', { query })
      : call('auditLogs.list', { params: { id: tenantId }, query })
  const open = await newest.then(
    ({ data: [entry] }) => entry?.id,
    () => undefined, // the list shows the reason
  )
  goTo(tenantId === null ? href('/audit', { target, open }) : tenantHref(tenantId, 'audit', { target, open }))
}

const histories: readonly Action[] = Object.entries(KINDS).map(([kind, loggedOf]) => ({
  name: `auditLogs.history.${kind}`,
  title: text.history,
  target: kind,
  needs: [loggedOf({}).tenantId === null ? 'auditLogs.listAll' : 'auditLogs.list'],
  key: 'h',
  isButton: true,
  run: (object) => openHistory(loggedOf(object)),
}))

export const actions = [...histories, showAt]
