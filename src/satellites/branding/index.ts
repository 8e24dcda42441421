import { defineSatellite } from '../../tenancy/satellite.ts'
import { TenantCloned } from '../../tenants/tenant/events.ts'
import { Branding } from './branding.ts'
import { operations } from './operations.ts'
import { on } from './part.ts'
import { tables } from './tables.ts'

export type { BrandingSettings } from './settings.ts'

export const branding = () =>
  defineSatellite({
    name: 'branding',
    summary: 'Branding of tenants: name, logo, colours, sender of mail, style sheet',
    tables,
    tenantTables: ['branding'],
    service: (kernel) => new Branding(kernel),
    operations,
    console: new URL('./console/index.tsx', import.meta.url),
    listeners: [on(TenantCloned, 'within', (branding, { sourceId, tenantId }) => branding.copy(sourceId, tenantId))],
  })

export default branding
