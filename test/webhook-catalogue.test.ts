/** The catalogue of events, with all satellites. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { expect, inject, onTestFinished, test } from 'vitest'
import { dottedName } from '../src/kernel/events/dotted-names.ts'
import { AUDIT_STREAM } from '../src/satellites/audit-logs/stream.ts'
import type { BillingOptions } from '../src/satellites/billing/index.ts'
import { NAMESPACES } from '../src/satellites/webhooks/model/event-names.ts'
import type { Published } from '../src/satellites/webhooks/typed-names.ts'
import { apiOf } from '../src/satellites/webhooks/webhooks-api.fixture.ts'
import { catalogueOf } from '../src/service/catalogue.ts'
import { type builtInSatellites, satellites, satellitesOn } from '../src/service/satellites.ts'
import type { NamesOf } from '../src/tenancy/names.ts'
import type { Satellite } from '../src/tenancy/satellite.ts'
import type { PlansConfig } from '../src/tenants/registry/plans.ts'
import { testTenancy } from '../src/testing/base/tenancy.ts'

/** All satellites: billing has options. */
type Whole = ReturnType<typeof builtInSatellites<{ billing: BillingOptions }>>
/** The compiler accepts exactly the names of the types. */
const TYPED: Readonly<Record<Published<NamesOf<PlansConfig, Whole>>, true>> = {
  'audit.entries': true,
  'billing.event_dead_lettered': true,
  'billing.misconfigured': true,
  'feature.flag_changed': true,
  'impersonation.ended': true,
  'impersonation.started': true,
  'payment.failed': true,
  'payment.succeeded': true,
  'quota.threshold_reached': true,
  'setting.changed': true,
  'subscription.activated': true,
  'subscription.canceled': true,
  'subscription.paused': true,
  'subscription.resumed': true,
  'subscription.updated': true,
  'tenant.activated': true,
  'tenant.backed_up': true,
  'tenant.cloned': true,
  'tenant.created': true,
  'tenant.deleted': true,
  'tenant.entered_maintenance': true,
  'tenant.erased': true,
  'tenant.exited_maintenance': true,
  'tenant.migrated': true,
  'tenant.moved': true,
  'tenant.provisioned': true,
  'tenant.provisioning_failed': true,
  'tenant.purged': true,
  'tenant.quota_exceeded': true,
  'tenant.restored': true,
  'tenant.suspended': true,
  'tenant.updated': true,
  'trial.ending': true,
  'webhook.subscription_disabled': true,
}

test('the types of the satellites have the names of all events and streams that are sent', () => {
  const names = catalogueOf(satellites).events.flatMap(({ name, isInternal }) => (isInternal ? [] : dottedName(name)))
  expect(Object.keys(TYPED).toSorted()).toEqual([...names, AUDIT_STREAM].toSorted())
  expect([...new Set(names.map((name) => name.split('.')[0]))].toSorted()).toEqual(NAMESPACES)
})

test('the catalogue has all events of Tenantry except internal ones, with schemas that a validator accepts', async () => {
  const { tenancy: whole, end } = await testTenancy<readonly Satellite[]>(inject('postgresUrl'), {
    satellites: satellitesOn({ satellites: {} }),
    role: 'api',
  })
  onTestFinished(end)
  const ajv = formats.default(new Ajv2020({ strict: true, allErrors: true, keywords: ['example'] }))
  const { status, json } = await apiOf(whole)('GET', '/webhook-events')
  expect(status).toBe(200)
  expect(whole.kernel.streams.names).toEqual([AUDIT_STREAM])
  const types = whole.kernel.events.types
  const internal = types.filter(({ isInternal }) => isInternal).map(({ name }) => name)
  expect(internal.sort()).toEqual([
    'BackofficeRestored',
    'DependencyDegraded',
    'QuotaTracked',
    'TenantLoginRestored',
    'TenantSuspensionRepeated',
    'WebhookDeliveryFailed',
  ])
  const expected = types
    .filter(({ isInternal }) => !isInternal)
    .map(({ name }) => ({ name: dottedName(name), type: name }))
  expect(json.nextCursor).toBeNull()
  expect(json.data).toMatchObject(expected.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
  for (const { schema, summary } of json.data) {
    expect(summary).not.toBe('')
    expect(ajv.validateSchema(schema)).toBe(true)
    expect(schema).toMatchObject({
      type: 'object',
      required: expect.arrayContaining(['id', 'occurredAt', 'requestId']),
    })
    expect(() => ajv.compile(schema)).not.toThrow()
  }
})
