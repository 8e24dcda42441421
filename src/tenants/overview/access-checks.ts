/** Checks of a tenant's access to its storage, after the guard has admitted a request. */
import type { AccessCheck, AccessResult } from '../../kernel/shares/contributions.ts'
import { ConnectionLimitReached, StorageFenced } from '../isolation/driver.ts'
import { pendingOf } from './attention-sources.ts'
import type { Overview } from './overview.ts'

const NO_STORAGE: AccessResult = { passed: null, message: 'The tenant has no installed storage.' }

export const accessChecks: readonly AccessCheck<Overview>[] = [
  { name: 'transfer', read: (overview, { tenantId }) => transfer(overview, tenantId) },
  { name: 'fence', read: (overview, { tenantId }) => fence(overview, tenantId) },
  { name: 'connections', read: (overview, { tenantId }) => connections(overview, tenantId) },
  { name: 'schema', read: (overview, { tenantId }) => schema(overview, tenantId) },
  { name: 'plan', read: (overview, { tenantId }) => plan(overview, tenantId) },
]

async function transfer({ kernel, services: { registry } }: Overview, id: string): Promise<AccessResult> {
  const { heldBy } = await registry.row(id)
  if (heldBy === null) return { passed: true, message: 'No transfer keeps the storage of the tenant closed.' }
  const { rows } = await kernel.database.sql(
    'select kind, state, coalesce(started_at, created_at) as since from multitenancy.transfers where id = $1',
    [heldBy],
  )
  const [{ kind = 'transfer', state, since = null } = {}] = rows
  const isRunning = state === 'pending' || state === 'running'
  return {
    passed: false,
    message: `A ${kind} keeps the storage of the tenant closed.`,
    code: StorageFenced.code,
    since,
    remedy: isRunning ? { operation: 'transfers.cancel', params: { id, transferId: heldBy } } : null,
    actions: ['tenants.move', 'backups.restore'],
  }
}

async function fence({ services: { registry, storage } }: Overview, id: string): Promise<AccessResult> {
  const located = await registry.find(id)
  if (!located || !['active', 'suspended'].includes(located.tenant.status)) return NO_STORAGE
  const { location } = located
  const isFenced = await storage.driver(location.isolation).isFenced(location)
  if (isFenced && located.tenant.status === 'suspended') {
    return { passed: null, message: 'A suspension keeps the storage of the tenant closed at its server.' }
  }
  return isFenced
    ? { passed: false, message: 'The storage of the tenant is closed at its server.', code: StorageFenced.code }
    : { passed: true, message: 'The storage of the tenant is open at its server.' }
}

async function connections({ services: { registry, storage } }: Overview, id: string): Promise<AccessResult> {
  const located = await registry.find(id)
  const count = storage.connections().find(({ placement }) => placement === located?.location.placement)
  if (!count) return { passed: null, message: 'This process has no connections to the server of the tenant.' }
  const { busy, waiting, max } = count
  const used = `${busy}${max === undefined ? '' : ` of ${max}`} connections of this process to its server are busy`
  return waiting > 0
    ? { passed: false, message: `${waiting} requests wait: ${used}.`, code: ConnectionLimitReached.code }
    : { passed: true, message: `No request waits: ${used}.` }
}

async function schema({ services }: Overview, id: string): Promise<AccessResult> {
  const { status } = (await services.registry.get(id)) ?? {}
  if (status !== 'active' && status !== 'suspended') return NO_STORAGE
  const pending = await pendingOf(services, id)
  return pending.length === 0
    ? { passed: true, message: 'The storage of the tenant has all migrations.' }
    : { passed: false, message: `The storage of the tenant lacks migrations: ${pending.join(', ')}.` }
}

async function plan({ services: { registry, plans } }: Overview, id: string): Promise<AccessResult> {
  const tenant = await registry.get(id)
  const { plan } = await plans.resolve(tenant)
  const named = tenant.metadata.plan
  if (plans.isDecidedByHost || named === undefined || named === plan) {
    return { passed: true, message: `The plan of the tenant is "${plan}".` }
  }
  return {
    passed: false,
    message: `The plan in the metadata of the tenant is not defined. "${plan}" applies.`,
    remedy: { operation: 'tenants.setPlan', params: { id, plan } },
    actions: ['tenants.setPlan', 'tenants.update', 'tenants.create'],
  }
}
