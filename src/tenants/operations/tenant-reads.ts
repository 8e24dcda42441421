import { z } from 'zod'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { operation, resource } from '../part.ts'
import { TenantNotFound } from '../tenant/errors.ts'
import { STATUSES } from '../tenant/lifecycle.ts'
import { TenantId, TenantRecord } from '../tenant/tenant.ts'

export const byId = z.object({ id: TenantId })
const flag = z.enum(['true', 'false']).transform((text) => text === 'true')

export const tenantResource = resource({
  state: TenantRecord,
  lock: (tenants, { id }: z.output<typeof byId>) => tenants.lock(id),
})

/** Argument of commands. */
export const tenant = { id: 'id of the tenant' }

export const getTenant = operation({
  name: 'tenants.get',
  method: 'GET',
  path: '/tenants/{id}',
  summary: 'Read one tenant, also a deleted one',
  params: byId,
  reply: TenantRecord,
  resource: tenantResource,
  errors: [TenantNotFound],
  command: { name: 'tenant:show', summary: 'Show one tenant', arguments: tenant },
  handle: (tenants, { params }) => tenants.get(params.id),
})

export const listTenants = operation({
  name: 'tenants.list',
  method: 'GET',
  path: '/tenants',
  summary: 'List tenants, the newest first',
  query: z.strictObject({
    status: z.enum(STATUSES).optional(),
    q: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .meta({ description: 'Part of an id, name or domain; with fewer than three characters, its beginning' }),
    includeDeleted: flag.optional().meta({ description: 'Include deleted ones; implied by `status=deleted`' }),
    ...Page.shape,
  }),
  reply: pageOf(TenantRecord),
  command: {
    name: 'tenant:list',
    options: {
      status: 'only those in this status',
      q: { flags: '--q <text>' },
      includeDeleted: 'include deleted ones',
    },
    rows: ({ data }) =>
      data.map(({ id, name, status, isolation, placement, createdAt }) => {
        return { id, name, status, isolation, placement, createdAt }
      }),
  },
  handle: (tenants, { query }) => tenants.list(query),
})
