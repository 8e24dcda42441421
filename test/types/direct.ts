/** Types of direct use: names of services, tables and plan of tenants, jobs and loops. */
import type { Kysely } from 'kysely'
import type { Guard, Satellite, Tenancy, Tenant } from 'tenantry'
import { createTenancy, defineTenancy } from 'tenantry'
import { builtInSatellites } from 'tenantry/satellites'
import { webhooks } from 'tenantry/satellites/webhooks'
import { z } from 'zod'
import { type Equal, is } from './is.ts'
import { type Database, definition, parcels } from './tenancy.ts'

const tenancy = await definition.start()

// Quotas: names of limits, and declared unlimited ones.
await tenancy.quotas.consume('acme', 'exports')
await tenancy.quotas.track('acme', 'api-calls', 2)
await tenancy.quotas.consumeAll('acme', [{ quota: 'exports' }, { quota: 'seats', amount: 2 }])
// @ts-expect-error misspelled quota
await tenancy.quotas.consume('acme', 'exprots')
// @ts-expect-error misspelled quota in a list
await tenancy.quotas.consumeAll('acme', [{ quota: 'exprots' }])
// @ts-expect-error misspelled quota
await tenancy.quotas.check('acme', 'seat')
await tenancy.quotas.top({ quota: 'exports', above: 0.5 })
// @ts-expect-error misspelled quota in a filter
await tenancy.quotas.top({ quota: 'exprots' })

// Flags
await tenancy.featureFlags.isEnabled('new-editor', { tenantId: 'acme' })
// @ts-expect-error undeclared flag
await tenancy.featureFlags.isEnabled('new-editro', { tenantId: 'acme' })
// @ts-expect-error undeclared flag
await tenancy.featureFlags.set('acme', 'old-editor', { enabled: true })

// Events and payloads
await tenancy.webhooks.dispatch('acme', 'note.created', { id: 1 })
// @ts-expect-error undeclared event
await tenancy.webhooks.dispatch('acme', 'note.deleted', { id: 1 })
// @ts-expect-error the id is a number
await tenancy.webhooks.dispatch('acme', 'note.created', { id: '1' })
// @ts-expect-error the payload has no such member
await tenancy.webhooks.dispatch('acme', 'note.created', { id: 1, secret: 'x' })

// Patterns of subscriptions: declared events, events of Tenantry and of satellites
const url = 'https://receiver.example/hooks'
await tenancy.webhooks.create('acme', { url, events: ['note.created', 'note.*', '*', 'tenant.*'] })
await tenancy.webhooks.create('acme', {
  url,
  events: ['tenant.entered_maintenance', 'parcel.sent_to_buyer', 'parcel.*'],
})
await tenancy.webhooks.create(null, {
  url,
  events: ['audit.entries', 'feature.flag_changed', 'quota.threshold_reached'],
})
await tenancy.webhooks.update('acme', 'id', { events: ['note.created'] })
await tenancy.webhooks.update('acme', 'id', { enabled: true })
const onSettled = () => undefined
await tenancy.webhooks.listen({ tenantId: 'acme', url, onSettled })
await tenancy.webhooks.listen({ tenantId: 'acme', url, events: ['parcel.*'], onSettled })
declare const ofForm: string[]
declare const kind: string
await tenancy.webhooks.create(null, { url, events: ofForm })
await tenancy.webhooks.create(null, { url, events: [`${kind}.created`, 'note.created'] })
// @ts-expect-error misspelled event
await tenancy.webhooks.create('acme', { url, events: ['tenant.*', 'note.craeted'] })
// @ts-expect-error misspelled first segment
await tenancy.webhooks.create('acme', { url, events: ['noet.created'] })
// @ts-expect-error misspelled event of Tenantry
await tenancy.webhooks.create('acme', { url, events: ['tenant.craeted'] })
// @ts-expect-error misspelled event of a satellite
await tenancy.webhooks.create('acme', { url, events: ['parcel.sent'] })
// @ts-expect-error internal events are not sent
await tenancy.webhooks.create('acme', { url, events: ['parcel.weighed'] })
// @ts-expect-error the satellite is not installed
await tenancy.webhooks.create('acme', { url, events: ['impersonation.started'] })
// @ts-expect-error misspelled event
await tenancy.webhooks.update('acme', 'id', { events: ['note.craeted'] })
// @ts-expect-error misspelled first segment
await tenancy.webhooks.update('acme', 'id', { events: ['noet.*'] })
// @ts-expect-error a pattern ends with .*
await tenancy.webhooks.create('acme', { url, events: ['note.cre*'] })
// @ts-expect-error the events are missing
await tenancy.webhooks.create('acme', { url })
// @ts-expect-error misspelled first segment
await tenancy.webhooks.listen({ tenantId: 'acme', url, events: ['noet.*'], onSettled })

// Events of deliveries
await tenancy.webhooks.test('acme', 'id', 'note.created')
await tenancy.webhooks.deliveries('acme', 'id', { event: 'webhook.test' })
await tenancy.webhooks.allDeliveries({ event: 'tenant.created', status: '5xx' })
// @ts-expect-error misspelled event
await tenancy.webhooks.test('acme', 'id', 'noet.created')
// @ts-expect-error misspelled event
await tenancy.webhooks.deliveries('acme', 'id', { event: 'noet.created' })
// @ts-expect-error misspelled event
await tenancy.webhooks.allDeliveries({ event: 'noet.created' })

// Metrics
await tenancy.metrics.increment('acme', 'notes')
// @ts-expect-error undeclared metric
await tenancy.metrics.increment('acme', 'note')
await tenancy.metrics.list('acme', { key: 'notes', limit: 10 })
await tenancy.metrics.listAll({ key: 'requests' })
await tenancy.metrics.sums({ key: 'notes', by: 'tenant' })
await tenancy.metrics.export('acme', 'csv', { key: 'notes' })
// @ts-expect-error undeclared metric
await tenancy.metrics.list('acme', { key: 'note' })
// @ts-expect-error undeclared metric
await tenancy.metrics.listAll({ key: 'note' })
// @ts-expect-error undeclared metric
await tenancy.metrics.sums({ key: 'note' })
// @ts-expect-error undeclared metric
await tenancy.metrics.exportAll('csv', { key: 'note' })
// @ts-expect-error guards count the requests
await tenancy.metrics.increment('acme', 'requests')

// Settings
const megabytes = await tenancy.settings.get('acme', 'upload.mb')
is<Equal<typeof megabytes, number>>()
const password = await tenancy.settings.get('acme', 'mail.password')
is<Equal<typeof password, string | undefined>>()
// @ts-expect-error undefined setting
await tenancy.settings.get('acme', 'upload.gb')
// @ts-expect-error the value is a number
await tenancy.settings.set('acme', 'upload.mb', '10')

// Plans
await tenancy.tenants.create({ name: 'Acme', metadata: { plan: 'pro', note: 'any other member' } })
await tenancy.tenants.setPlan('acme', 'free')
// @ts-expect-error undefined plan
await tenancy.tenants.create({ name: 'Acme', metadata: { plan: 'gold' } })
// @ts-expect-error undefined plan
await tenancy.tenants.update('acme', { metadata: { plan: 'gold' } })
// @ts-expect-error undefined plan
await tenancy.tenants.setPlan('acme', 'gold')

// Services without declared names, and of a host's satellite
is<Equal<Awaited<ReturnType<typeof tenancy.parcels.count>>, number>>()
await tenancy.auditLogs.list('acme', {})
// @ts-expect-error the satellite is not installed
tenancy.sso

// Tables and plan of every tenant
const current = await tenancy.current()
is<Equal<typeof current.db, Kysely<Database>>>()
is<Equal<typeof current.plan, 'free' | 'pro'>>()
is<Equal<Awaited<ReturnType<typeof tenancy.tenants.handle>>, typeof current>>()
const titles = await current.db.selectFrom('notes').select('title').execute()
is<Equal<typeof titles, { title: string }[]>>()
// @ts-expect-error misspelled table
current.db.selectFrom('note')
const acme = await tenancy.tenant('acme')
is<Equal<typeof acme, typeof current>>()
await acme.transaction(async (db) => {
  is<Equal<typeof db, Kysely<Database>>>()
})
const ids = await tenancy.run('acme', (tenant) => tenant.db.selectFrom('notes').select('id').execute())
is<Equal<typeof ids, { id: number }[]>>()
// @ts-expect-error misspelled column
await tenancy.run('acme', (tenant) => tenant.db.selectFrom('notes').select('titel').execute())
await tenancy.forEachTenant({}, ({ db, plan }) => {
  is<Equal<typeof db, Kysely<Database>>>()
  // @ts-expect-error undefined plan
  return plan === 'gold'
})
const clients = tenancy.perTenant(({ db }) => db, { dispose: () => undefined })
await clients.of('acme', (db) => {
  is<Equal<typeof db, Kysely<Database>>>()
})
const job = tenancy.job((one: { data: { to: string } }, tenant) => {
  is<Equal<typeof tenant, typeof current>>()
  return one.data.to
})
is<Equal<Parameters<typeof job>[0], { data: { to: string } }>>()
tenancy.job((_job, tenant) => tenant?.db.selectFrom('notes'), { central: true })
tenancy.job((one, tenant) => {
  is<Equal<typeof one.data, unknown>>()
  // @ts-expect-error the type of the data is unknown
  return `${tenant.id} ${one.data.to}`
})
declare function worker<Data>(process: (job: { id: string; data: Data }, token?: string) => Promise<unknown>): void
worker<{ to: string }>(
  tenancy.job(({ data }, tenant) => {
    is<Equal<typeof data, { to: string }>>()
    return tenant.id
  }),
)
worker<{ to: string }>(
  tenancy.job(({ data }, tenant) => (tenant ? data.to : undefined), { central: true, onUnusable: 'retry' }),
)
tenancy.job((one, tenant) => `${tenant.id} ${one.payload.to}`, {
  data: (one: { payload: { to: string } }) => one.payload,
})
is<Equal<ReturnType<typeof tenancy.carry<{ to: string }>>['to'], string>>()
const guard = tenancy.guard({ resolve: () => undefined, authorize: 'anyone' })
const admitted = await guard.admit({ raw: {}, method: 'GET', path: '/', host: undefined, header: () => undefined })
if (admitted.tenant) is<Equal<typeof admitted.tenant, typeof current>>()

// Nothing declared: any names, any tables
const plain = await defineTenancy({ satellites: [parcels()] }).start()
is<Equal<Awaited<ReturnType<typeof plain.current>>['plan'], string>>()
is<Equal<Awaited<ReturnType<typeof plain.current>>['db'], Kysely<any>>>()
const undeclared = await createTenancy({ satellites: builtInSatellites({ sso: false }) })
await undeclared.quotas.consume('acme', 'anything')
await undeclared.featureFlags.isEnabled('anything', { tenantId: 'acme' })
await undeclared.webhooks.dispatch('acme', 'any.event', { of: 'any', payload: 1 })
await undeclared.webhooks.create('acme', { url, events: ['any.event', 'any.*'] })
await undeclared.webhooks.test('acme', 'id', 'any.event')
await undeclared.webhooks.allDeliveries({ event: 'any.event' })
await undeclared.metrics.increment('acme', 'anything')
await undeclared.metrics.list('acme', { key: 'anything' })
is<Equal<ReturnType<typeof undeclared.settings.get>, Promise<unknown>>>()

// The list of all satellites has names, too.
const whole = await createTenancy({
  plans: { defaultPlan: 'free', definitions: { free: { limits: { exports: 1 } } } },
  satellites: [
    ...builtInSatellites({
      sso: false,
      featureFlags: { flags: ['new-editor'] },
      webhooks: { events: { 'note.created': z.object({ id: z.number() }) } },
      metrics: { metrics: ['notes'] },
      settings: { define: { 'upload.mb': z.int().default(10) } },
    }),
    parcels(),
  ],
})
await whole.quotas.consume('acme', 'exports')
await whole.featureFlags.isEnabled('new-editor', { tenantId: 'acme' })
await whole.webhooks.dispatch('acme', 'note.created', { id: 1 })
await whole.webhooks.create('acme', { url, events: ['note.created', 'parcel.sent_to_buyer', 'impersonation.started'] })
await whole.metrics.increment('acme', 'notes')
await whole.parcels.count('acme')
is<Equal<Awaited<ReturnType<typeof whole.settings.get<'upload.mb'>>>, number>>()
// @ts-expect-error misspelled quota
await whole.quotas.consume('acme', 'export')
// @ts-expect-error undeclared flag
await whole.featureFlags.isEnabled('old-editor', { tenantId: 'acme' })
// @ts-expect-error misspelled first segment
await whole.webhooks.create('acme', { url, events: ['noet.created'] })
// @ts-expect-error billing has no options and is not installed
await whole.webhooks.create('acme', { url, events: ['payment.failed'] })
// @ts-expect-error the id is a number
await whole.webhooks.dispatch('acme', 'note.created', { id: '1' })
// @ts-expect-error undeclared metric
await whole.metrics.increment('acme', 'note')
// @ts-expect-error disabled
whole.sso

// A satellite whose type has no names of events may publish any. Only namespaces of declared events are checked.
declare const unnamed: Satellite<'unnamed', object>
const open = await createTenancy({ satellites: [webhooks({ events: { 'note.created': z.object({}) } }), unnamed] })
await open.webhooks.create('acme', { url, events: ['note.created', 'note.*', 'parcel.sent', 'tenant.created'] })
await open.webhooks.test('acme', 'id', 'parcel.sent')
// @ts-expect-error misspelled event
await open.webhooks.create('acme', { url, events: ['note.craeted'] })

// A typed tenancy is a tenancy, and a typed tenant is a tenant.
export const anyTenancy: Pick<Tenancy, 'tenants' | 'tenant' | 'run' | 'current' | 'guard' | 'forEachTenant'> = tenancy
export const anyTenant: Tenant = current
export const anyGuard: Guard = guard

// @ts-expect-error authorize is required
tenancy.guard({ resolve: () => undefined })

// The compiler does not know the satellites of a record.
const unknown = await defineTenancy({ satellites: { sso: false } }).start()
// @ts-expect-error no satellite is known
await unknown.quotas.consume('acme', 'exports')
// @ts-expect-error undefined default plan
defineTenancy({ plans: { defaultPlan: 'fre', definitions: { free: { limits: {} } } } })
const plans = { defaultPlan: 'free', definitions: { free: { limits: {} } } }
defineTenancy({ plans })
