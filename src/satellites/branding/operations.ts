import { z } from 'zod'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { operation, resource } from './part.ts'
import { BrandingRequest, BrandingSettings } from './settings.ts'

const byId = z.object({ id: TenantId })
const tenant = { id: 'id of the tenant' }
const brandingResource = resource({
  state: BrandingSettings,
  lock: (branding, { id }: z.output<typeof byId>) => branding.lock(id),
})

export const operations = [
  operation({
    name: 'branding.get',
    method: 'GET',
    path: '/tenants/{id}/branding',
    summary: "Read a tenant's branding; all members are null without settings",
    params: byId,
    reply: BrandingSettings,
    resource: brandingResource,
    errors: [TenantNotFound],
    command: { name: 'tenant:branding:show', summary: "Show a tenant's branding", arguments: tenant },
    handle: (branding, { params }) => branding.get(params.id),
  }),
  operation({
    name: 'branding.update',
    method: 'PUT',
    path: '/tenants/{id}/branding',
    summary: "Set a tenant's branding",
    description:
      'Complete state: an absent member becomes null. `customCss` controls the appearance of the whole page, including hidden and ' +
      'added words. Rejected: text that could leave its `<style>` element or load from another host.',
    params: byId,
    body: BrandingRequest,
    reply: BrandingSettings,
    resource: brandingResource,
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'tenant:branding:set',
      summary: "Set a tenant's branding; an option that is not given removes its value",
      arguments: tenant,
      options: { customCss: 'style sheet of at most 64 KiB' },
    },
    handle: (branding, { params, body }) => branding.update(params.id, body),
  }),
]
