import { z } from 'zod'
import { JobFailure, operation, Reply, resource } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import type { Transition } from '../lifecycle/transitions.ts'
import { MigrationFailed } from '../migrations/errors.ts'
import { PlansDescription } from '../registry/plans.ts'
import {
  DomainTaken,
  InstallationFailed,
  PlanNotFound,
  PlanResolvedByHost,
  TenantExists,
  TenantNotFound,
  TenantState,
} from '../tenant/errors.ts'
import { STATUSES } from '../tenant/lifecycle.ts'
import { MaintenanceRequest, NewTenant, Tenant, TenantChange, TenantId } from '../tenant/tenant.ts'
import type { Tenants } from '../tenants.ts'
import { transferOperations } from './transfers.ts'

const byId = z.object({ id: TenantId })
const flag = z.enum(['true', 'false']).transform((text) => text === 'true')

const tenantResource = resource({
  state: Tenant,
  lock: (tenants: Tenants, { id }: z.output<typeof byId>) => tenants.lock(id),
})

const settled = async (tenants: Tenants, { id }: Tenant, signal: AbortSignal) => {
  const tenant = await tenants.waitUntilInstalled(id, signal)
  return tenant.failure ? new JobFailure(tenant.failure) : tenant
}

/** 202 when the tenant is being installed (again), else 200. */
const tenantOf = ({ tenant }: Transition) =>
  tenant.status === 'provisioning' ? new Reply(202, tenant, { location: `/tenants/${tenant.id}` }) : tenant

const QueueCounts = z
  .object({
    queue: z.string(),
    waiting: z.number().int(),
    active: z.number().int(),
    completed: z.number().int(),
    failed: z.number().int(),
    delayed: z.number().int(),
  })
  .meta({ id: 'QueueCounts' })

export const operations = [
  operation({
    name: 'tenants.list',
    method: 'GET',
    path: '/tenants',
    summary: 'List tenants, the newest first',
    query: z.strictObject({
      status: z.enum(STATUSES).optional(),
      q: z.string().min(1).max(200).optional().meta({ description: 'Part of an id, name or domain' }),
      includeDeleted: flag.optional().meta({ description: 'Deleted ones too; implied by `status=deleted`' }),
      ...Page.shape,
    }),
    reply: pageOf(Tenant),
    handle: (tenants: Tenants, { query }) => tenants.list(query),
  }),
  operation({
    name: 'tenants.get',
    method: 'GET',
    path: '/tenants/{id}',
    summary: 'Read one tenant, a deleted one too',
    params: byId,
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound],
    handle: (tenants: Tenants, { params }) => tenants.get(params.id),
  }),
  operation({
    name: 'tenants.create',
    method: 'POST',
    path: '/tenants',
    summary: 'Create a tenant',
    description:
      'A job makes its storage: the answer shows it `provisioning`. With `Prefer: wait` it shows it `active`, or is the problem of the failure.',
    body: NewTenant,
    reply: Tenant,
    status: 201,
    errors: [TenantExists, DomainTaken],
    handle: async (tenants: Tenants, { body }) => {
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
    summary: 'Change name, metadata or domains',
    params: byId,
    body: TenantChange,
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState, DomainTaken],
    handle: (tenants: Tenants, { params, body }) => tenants.update(params.id, body),
  }),
  operation({
    name: 'tenants.activate',
    method: 'PUT',
    path: '/tenants/{id}/activate',
    summary: 'Activate a suspended tenant, or install a failed one again',
    params: byId,
    reply: Tenant,
    resource: tenantResource,
    alsoStatus: [202],
    errors: [TenantNotFound, TenantState],
    handle: async (tenants: Tenants, { params }) => tenantOf(await tenants.activate(params.id)),
    settled,
    jobErrors: [InstallationFailed, MigrationFailed],
  }),
  operation({
    name: 'tenants.suspend',
    method: 'PUT',
    path: '/tenants/{id}/suspend',
    summary: 'Suspend an active tenant',
    params: byId,
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState],
    handle: async (tenants: Tenants, { params }) => tenantOf(await tenants.suspend(params.id)),
  }),
  operation({
    name: 'tenants.delete',
    method: 'DELETE',
    path: '/tenants/{id}',
    summary: 'Delete a tenant; it can be restored until its purgeAt',
    params: byId,
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound],
    handle: async (tenants: Tenants, { params }) => tenantOf(await tenants.delete(params.id)),
  }),
  operation({
    name: 'tenants.restore',
    method: 'PUT',
    path: '/tenants/{id}/restore',
    summary: 'Bring a deleted tenant back to the status it had',
    params: byId,
    reply: Tenant,
    resource: tenantResource,
    alsoStatus: [202],
    errors: [TenantNotFound, TenantState],
    handle: async (tenants: Tenants, { params }) => tenantOf(await tenants.restore(params.id)),
    settled,
    jobErrors: [InstallationFailed, MigrationFailed],
  }),
  operation({
    name: 'tenants.enterMaintenance',
    method: 'PUT',
    path: '/tenants/{id}/maintenance',
    summary: 'Put a tenant into maintenance',
    params: byId,
    body: MaintenanceRequest,
    bodyOptional: true,
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState],
    handle: (tenants: Tenants, { params, body }) => tenants.enterMaintenance(params.id, body),
  }),
  operation({
    name: 'tenants.exitMaintenance',
    method: 'DELETE',
    path: '/tenants/{id}/maintenance',
    summary: 'Take a tenant out of maintenance',
    params: byId,
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState],
    handle: (tenants: Tenants, { params }) => tenants.exitMaintenance(params.id),
  }),
  operation({
    name: 'tenants.setPlan',
    method: 'PUT',
    path: '/tenants/{id}/plans/{plan}',
    summary: 'Put a tenant on a plan (writes metadata.plan)',
    params: z.object({ id: TenantId, plan: z.string().min(1).max(128) }),
    reply: Tenant,
    resource: tenantResource,
    errors: [TenantNotFound, TenantState, PlanNotFound, PlanResolvedByHost],
    handle: (tenants: Tenants, { params }) => tenants.setPlan(params.id, params.plan),
  }),
  operation({
    name: 'tenants.queue',
    method: 'GET',
    path: '/tenants/{id}/queue',
    summary: "Count a tenant's jobs by queue and state",
    params: byId,
    reply: z.object({ data: z.array(QueueCounts) }),
    errors: [TenantNotFound],
    handle: async (tenants: Tenants, { params }) => ({ data: await tenants.queues(params.id) }),
  }),
  operation({
    name: 'plans.list',
    method: 'GET',
    path: '/plans',
    summary: 'Read the plans and how a tenant comes to one',
    reply: PlansDescription.meta({ id: 'Plans' }),
    handle: async ({ plans }: Tenants) => plans.describe(),
  }),
  ...transferOperations,
]
