import { z } from 'zod'
import { JobFailure, Reply, type Waiting } from '../../kernel/api/operation.ts'
import { seconds } from '../../kernel/api/option-values.ts'
import type { Transition } from '../lifecycle/transitions.ts'
import { MigrationFailed } from '../migrations/errors.ts'
import { operation } from '../part.ts'
import { PlansDescription } from '../registry/plans.ts'
import {
  DomainTaken,
  InstallationFailed,
  PlanNotFound,
  PlanResolvedByHost,
  TenantExists,
  TenantNotFound,
  TenantNotReady,
  TenantState,
} from '../tenant/errors.ts'
import { MaintenanceRequest, NewTenant, TenantChange, TenantId, TenantRecord } from '../tenant/tenant.ts'
import type { Tenants } from '../tenants.ts'
import { adoptionOperations } from './adoption.ts'
import { deadLetterOperations } from './dead-letters.ts'
import { migrationOperations } from './migrations.ts'
import { rowAdoptionOperations } from './row-adoption.ts'
import { byId, getTenant, listTenants, tenant, tenantResource } from './tenant-reads.ts'
import { transferOperations } from './transfers.ts'

const settled = async (tenants: Tenants, { id }: TenantRecord, signal: AbortSignal) => {
  const tenant = await tenants.waitUntilInstalled(id, signal)
  return tenant.failure ? new JobFailure(tenant.failure) : tenant
}

/** 202 while the tenant is being installed, otherwise 200. */
const tenantOf = ({ tenant }: Transition) =>
  tenant.status === 'provisioning' ? new Reply(202, tenant, { location: `/tenants/${tenant.id}` }) : tenant

const installation: Waiting<TenantRecord> = {
  option: { flags: '--wait <seconds>', summary: 'wait for the installation', parse: seconds, default: 30 },
  isPending: ({ status }) => status === 'provisioning',
  progress: ({ id }) => `installing ${id}`,
  read: ({ id }, call) => call(getTenant, { params: { id } }),
  failure: ({ status, failure }) => {
    if (failure) return InstallationFailed(`Tenant installation failed: ${failure.message}`)
    if (status === 'provisioning') return TenantNotReady('The installation continues; tenant:show shows its status.')
  },
  interrupted: ({ id }) => `The installation of tenant "${id}" may still run. tenant:show ${id} shows its status.`,
}

const QueueCounts = z
  .object({
    queue: z.string(),
    tenantId: z.string().nullable().meta({ description: 'Null for jobs of no tenant' }),
    waiting: z.number().int(),
    active: z.number().int(),
    completed: z.number().int(),
    failed: z.number().int(),
    delayed: z.number().int(),
  })
  .meta({ id: 'QueueCounts' })

const exitMaintenance = operation({
  name: 'tenants.exitMaintenance',
  method: 'DELETE',
  path: '/tenants/{id}/maintenance',
  changesStorage: false,
  summary: 'End the maintenance of a tenant',
  params: byId,
  reply: TenantRecord,
  resource: tenantResource,
  errors: [TenantNotFound, TenantState],
  handle: (tenants, { params }) => tenants.exitMaintenance(params.id),
})

export const operations = [
  listTenants,
  getTenant,
  operation({
    name: 'tenants.create',
    method: 'POST',
    path: '/tenants',
    changesStorage: true,
    summary: 'Create a tenant',
    description:
      'A job creates its storage: the response shows it `provisioning`. With `Prefer: wait` it shows it `active`, or is the problem of the failure.',
    body: NewTenant,
    reply: TenantRecord,
    status: 201,
    errors: [TenantExists, DomainTaken],
    command: {
      name: 'tenant:create',
      summary: 'Create a tenant and wait until it is active',
      arguments: { name: 'name of the customer' },
      options: {
        id: 'your own id; default: a UUIDv7',
        plan: 'plan, written to metadata.plan',
        metadata: 'a JSON object',
        domains: { flags: '--domain <domain...>', summary: 'host name of the tenant' },
        isolation: { flags: '--isolation <driver>', summary: 'isolation driver' },
        placement: { flags: '--placement <name>', summary: 'PostgreSQL server' },
      },
      body: ({ plan, ...body }) => (plan === undefined ? body : { ...body, metadata: { ...body.metadata, plan } }),
      wait: installation,
    },
    handle: async (tenants, { body }) => {
      const tenant = await tenants.create(body)
      return new Reply(201, tenant, { location: `/tenants/${tenant.id}` })
    },
    settled,
    jobErrors: [InstallationFailed, MigrationFailed],
  }),
  operation({
    name: 'tenants.update',
    method: 'PATCH',
    path: '/tenants/{id}',
    changesStorage: false,
    summary: 'Change name, metadata or domains',
    params: byId,
    body: TenantChange,
    reply: TenantRecord,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState, DomainTaken],
    command: {
      name: 'tenant:update',
      arguments: tenant,
      options: {
        name: { flags: '--name <name>', summary: 'new name' },
        metadata: 'a JSON merge patch (RFC 7396): null removes a key',
        domains: { flags: '--domain <domain...>', summary: 'host name; the given ones replace all others' },
      },
    },
    handle: (tenants, { params, body }) => tenants.update(params.id, body),
  }),
  operation({
    name: 'tenants.activate',
    method: 'PUT',
    path: '/tenants/{id}/activate',
    changesStorage: true,
    summary: 'Activate a suspended tenant, or install a failed one again',
    params: byId,
    reply: TenantRecord,
    resource: tenantResource,
    alsoStatus: [202],
    errors: [TenantNotFound, TenantState],
    command: { name: 'tenant:activate', arguments: tenant, wait: installation, filter: listTenants },
    handle: async (tenants, { params }) => tenantOf(await tenants.activate(params.id)),
    settled,
    jobErrors: [InstallationFailed, MigrationFailed],
  }),
  operation({
    name: 'tenants.suspend',
    method: 'PUT',
    path: '/tenants/{id}/suspend',
    changesStorage: false,
    summary: 'Suspend an active tenant',
    params: byId,
    reply: TenantRecord,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState],
    command: { name: 'tenant:suspend', arguments: tenant, filter: listTenants },
    handle: async (tenants, { params }) => tenantOf(await tenants.suspend(params.id)),
  }),
  operation({
    name: 'tenants.delete',
    method: 'DELETE',
    path: '/tenants/{id}',
    changesStorage: false,
    summary: 'Delete a tenant; it can be restored until its purgeAt',
    params: byId,
    reply: TenantRecord,
    resource: tenantResource,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:delete',
      summary: 'Delete a tenant; it can be restored until it is purged',
      arguments: tenant,
      filter: listTenants,
      question: async ({ params }, call) => {
        const { name, id }: TenantRecord = await call(getTenant, { params })
        return `Delete ${name} (${id})?`
      },
    },
    handle: async (tenants, { params }) => tenantOf(await tenants.delete(params.id)),
  }),
  operation({
    name: 'tenants.restore',
    method: 'PUT',
    path: '/tenants/{id}/restore',
    changesStorage: true,
    summary: 'Restore a deleted tenant to its former status',
    params: byId,
    reply: TenantRecord,
    resource: tenantResource,
    alsoStatus: [202],
    errors: [TenantNotFound, TenantState],
    command: { name: 'tenant:restore', summary: 'Restore a deleted tenant', arguments: tenant, filter: listTenants },
    handle: async (tenants, { params }) => tenantOf(await tenants.restore(params.id)),
    settled,
    jobErrors: [InstallationFailed, MigrationFailed],
  }),
  operation({
    name: 'tenants.enterMaintenance',
    method: 'PUT',
    path: '/tenants/{id}/maintenance',
    changesStorage: false,
    summary: 'Put a tenant into maintenance',
    params: byId,
    body: MaintenanceRequest,
    bodyOptional: true,
    reply: TenantRecord,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'tenant:maintenance',
      summary: 'Put a tenant into maintenance, or end it with --off',
      arguments: tenant,
      options: {
        message: { flags: '--message <text>', summary: 'message to users' },
        retryAfterSeconds: { flags: '--retry-after <seconds>', summary: 'time to retry' },
      },
      instead: { option: { flags: '--off', summary: 'end maintenance' }, operation: exitMaintenance },
      filter: listTenants,
    },
    handle: (tenants, { params, body }) => tenants.enterMaintenance(params.id, body),
  }),
  exitMaintenance,
  operation({
    name: 'tenants.setPlan',
    method: 'PUT',
    path: '/tenants/{id}/plans/{plan}',
    changesStorage: false,
    summary: "Set a tenant's plan (writes metadata.plan)",
    params: z.object({ id: TenantId, plan: z.string().min(1).max(128) }),
    reply: TenantRecord,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState, PlanNotFound, PlanResolvedByHost],
    command: {
      name: 'tenant:plan:set',
      summary: 'Set the plan of a tenant (writes metadata.plan)',
      arguments: { ...tenant, plan: 'name of the plan' },
    },
    handle: (tenants, { params }) => tenants.setPlan(params.id, params.plan),
  }),
  operation({
    name: 'tenants.queue',
    method: 'GET',
    path: '/tenants/{id}/queue',
    summary: "Count a tenant's jobs by queue and state",
    params: byId,
    reply: z.object({ data: z.array(QueueCounts) }),
    errors: [TenantNotFound],
    handle: async (tenants, { params }) => ({ data: await tenants.queues(params.id) }),
  }),
  operation({
    name: 'queues.list',
    method: 'GET',
    path: '/queues',
    summary: 'Count the jobs of one tenant, or of all, by queue and state',
    query: z.strictObject({ tenantId: TenantId.optional() }),
    reply: z.object({ data: z.array(QueueCounts) }),
    errors: [TenantNotFound],
    command: {
      name: 'tenant:queue:stats',
      summary: 'Count jobs by queue and state, of one tenant or all',
      arguments: { tenantId: { name: 'id', summary: 'only this tenant' } },
    },
    handle: async (tenants, { query }) => ({ data: await tenants.queues(query.tenantId) }),
  }),
  operation({
    name: 'plans.list',
    method: 'GET',
    path: '/plans',
    summary: 'Read the plans and the rule that selects the plan of a tenant',
    reply: PlansDescription.meta({ id: 'Plans' }),
    command: {
      name: 'plan:list',
      summary: 'List the plans with their limits',
      rows: ({ defaultPlan, definitions }) =>
        Object.entries(definitions).map(([plan, { limits, backups = {} }]) => {
          return { plan, isDefault: plan === defaultPlan, limits, backups }
        }),
    },
    handle: async ({ plans }) => plans.describe(),
  }),
  ...adoptionOperations,
  ...rowAdoptionOperations,
  ...deadLetterOperations,
  ...migrationOperations,
  ...transferOperations,
]
