import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

const tenantId = z.string()
const ofTenant = z.object({ tenantId })

export const TenantCreated = event(
  'TenantCreated',
  'A tenant was registered; its storage is being made',
  z.object({ tenantId, name: z.string(), isolation: z.string(), placement: z.string() }),
)
export const TenantProvisioned = event(
  'TenantProvisioned',
  'Storage is made and migrated; the tenant is active',
  ofTenant,
)
export const TenantProvisioningFailed = event(
  'TenantProvisioningFailed',
  'The installation failed permanently',
  z.object({ tenantId, code: z.string() }),
)
export const TenantActivated = event('TenantActivated', 'A suspended tenant is active again', ofTenant)
export const TenantSuspended = event('TenantSuspended', 'A tenant was suspended', ofTenant)
/** Whoever has suspended it must not be the only one who knows: somebody else wants it so as well. */
export const TenantSuspensionRepeated = event(
  'TenantSuspensionRepeated',
  'Somebody wanted a tenant to be suspended that is so already',
  ofTenant,
  { isInternal: true },
)
export const TenantUpdated = event(
  'TenantUpdated',
  'Name, metadata or domains were changed',
  z.object({ tenantId, changed: z.array(z.enum(['name', 'metadata', 'domains'])) }),
)
export const TenantMigrated = event(
  'TenantMigrated',
  "The host's migrations were run in a tenant's storage",
  z.object({ tenantId, migrations: z.array(z.string()), direction: z.enum(['up', 'down']) }),
)
export const TenantDeleted = event(
  'TenantDeleted',
  'A tenant was deleted; it can be restored until purgeAt',
  z.object({ tenantId, purgeAt: z.iso.datetime() }),
)
export const TenantRestored = event(
  'TenantRestored',
  'A deleted tenant is back, or one was restored from a backup',
  z.object({ tenantId, from: z.enum(['deletion', 'backup']) }),
)
export const TenantEnteredMaintenance = event(
  'TenantEnteredMaintenance',
  'A tenant was put into maintenance',
  z.object({ tenantId, message: z.string().nullable(), retryAfterSeconds: z.number() }),
)
export const TenantExitedMaintenance = event('TenantExitedMaintenance', 'A tenant left maintenance', ofTenant)
export const TenantPurged = event('TenantPurged', 'Everything of a tenant is gone; its id stays taken', ofTenant)

const where = z.object({ isolation: z.string(), placement: z.string() })

export const TenantBackedUp = event(
  'TenantBackedUp',
  'A backup of a tenant is complete',
  z.object({ tenantId, backupId: z.uuid(), sizeBytes: z.number().int() }),
)
export const TenantCloned = event(
  'TenantCloned',
  "A tenant is active that was made from another's storage",
  z.object({ tenantId, sourceId: z.string() }),
)
export const TenantMoved = event(
  'TenantMoved',
  'The storage of a tenant is another now, by another driver or on another server',
  z.object({
    tenantId,
    from: where,
    to: where,
    isUndone: z.boolean().meta({ description: 'Whether it went back to storage that it had left' }),
  }),
)
