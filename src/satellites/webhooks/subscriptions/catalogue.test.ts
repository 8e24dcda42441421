/** The catalogue of events, with all satellites. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { expect, inject, onTestFinished, test } from 'vitest'
import { catalogueOf } from '../../../service/catalogue.ts'
import { satellites, satellitesOn } from '../../../service/main.ts'
import type { Satellite } from '../../../tenancy/satellite.ts'
import { testTenancy } from '../../../testing/base/tenancy.ts'
import { dottedName, NAMESPACES } from '../model/event-names.ts'
import { apiOf } from '../webhooks-api.fixture.ts'

test('the namespaces of Tenantry are the first segments of the names of its events', () => {
  const names = catalogueOf(satellites).events.flatMap(({ name, isInternal }) => (isInternal ? [] : dottedName(name)))
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
