import { expect, test } from 'vitest'
import { changeTitle } from './change-title.ts'

test.each([
  ['tenants.suspend', 'tenant:acme', 'Suspended by Ann'],
  ['tenants.create', 'tenant:acme', 'Created by Ann'],
  ['tenants.setPlan', 'tenant:acme', 'Plan set by Ann'],
  ['tenants.undoMove', 'tenant:acme', 'Move undone by Ann'],
  ['tenants.enterMaintenance', 'tenant:acme', 'Maintenance started by Ann'],
  ['featureFlags.edit', 'featureFlag:new-editor', 'Feature flag new-editor edited by Ann'],
  ['webhooks.rotateSecret', 'webhook:0192f0c1-7d2b-7c3e-9a51-3f4b2c1d0e9f', 'Secret rotated by Ann'],
  ['webhooks.delete', 'webhook:0192f0c1-7d2b-7c3e-9a51-3f4b2c1d0e9f', 'Webhook deleted by Ann'],
  ['webhooks.replayFailed', 'webhook:1', 'Failed deliveries replayed by Ann'],
  ['quotas.reset', 'quotas:acme', 'Reset by Ann'],
  ['outbox.retry', 'entry:4', 'Entry 4 retried by Ann'],
  ['backoffice.restored', 'tenant:acme', 'Restored by Ann'],
  ['crm.sync', 'list', 'List synced by Ann'],
])('the title of %s of %s is "%s"', (action, target, title) => {
  expect(changeTitle({ action, target, actor: { name: 'Ann' }, outcome: 'success' })).toBe(title)
})

test('the title of a failure names the operation and its caller', () => {
  const entry = { action: 'quotas.setUsage', target: 'quotas:acme', actor: { name: 'Ann' }, outcome: 'failure' }
  expect(changeTitle(entry)).toBe('Set usage failed, requested by Ann')
})
