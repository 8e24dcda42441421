/** Restoration of a subscription of a tenant. A deleted one is created again with another id and another secret. */
import { pick } from '../../../console/data/pick.ts'
import type { Creation, Restoration } from '../../../console/module.ts'

const MEMBERS = ['url', 'events', 'description', 'enabled', 'envelope']

/** A deletion is recorded with all members, so they are all known unless the log lacks the creation and the deletion. */
const creation: Creation<'webhooks.create'> = {
  create: 'webhooks.create',
  createInput: (id, { url, events, ...others }) =>
    url && events && { params: { id }, body: { url, events, ...others } },
  secretOf: ({ secret }) => secret,
}

export const restoration: Restoration<'webhooks.get', 'webhooks.update'> = {
  kind: 'webhook',
  needs: ['webhooks.get', 'webhooks.update'],
  read: 'webhooks.get',
  change: 'webhooks.update',
  readInput: (id, webhookId) => ({ params: { id, webhookId } }),
  // A listener, which has the member `to`, ends with its process.
  stateOf: (state) => ('to' in state ? undefined : pick(state, MEMBERS)),
  changeInput: (id, webhookId, state) => ({ params: { id, webhookId }, body: state }),
  creation,
}
