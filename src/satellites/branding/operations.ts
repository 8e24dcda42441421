import { z } from 'zod'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { operation, resource } from './part.ts'
import { BrandingRequest, BrandingSettings } from './settings.ts'

const byId = z.object({ id: TenantId })
const brandingResource = resource({
  state: BrandingSettings,
  lock: (branding, { id }: z.output<typeof byId>) => branding.lock(id),
})

export const operations = [
  operation({
    name: 'branding.get',
    method: 'GET',
    path: '/tenants/{id}/branding',
    summary: "Read a tenant's branding; all null while nothing is set",
    params: byId,
    reply: BrandingSettings,
    resource: brandingResource,
    errors: [TenantNotFound],
    handle: (branding, { params }) => branding.get(params.id),
  }),
  operation({
    name: 'branding.update',
    method: 'PUT',
    path: '/tenants/{id}/branding',
    summary: "Set a tenant's branding",
    description:
      'Full state: a member that is left out is null afterwards. `customCss` decides all of how a page looks, hidden and ' +
      'added words included: what is refused is what could leave its `<style>` element or load from another host.',
    params: byId,
    body: BrandingRequest,
    reply: BrandingSettings,
    resource: brandingResource,
    errors: [TenantNotFound, TenantState],
    handle: (branding, { params, body }) => branding.update(params.id, body),
  }),
]
