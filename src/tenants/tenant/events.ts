import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

const tenantId = z.string()
const ofTenant = z.object({ tenantId })

export const TenantCreated = event(
  'TenantCreated',
  'A tenant was registered; its storage is being created',
  z.object({ tenantId, name: z.string(), isolation: z.string(), placement: z.string() }),
)
export const TenantProvisioned = event(
  'TenantProvisioned',
  'The storage was created and migrated; the tenant is active',
  ofTenant,
)
export const TenantProvisioningFailed = event(
  'TenantProvisioningFailed',
  'The installation of a tenant failed',
  z.object({ tenantId, code: z.string() }),
)
export const TenantActivated = event('TenantActivated', 'A suspended tenant was activated', ofTenant)
export const TenantSuspended = event('TenantSuspended', 'A tenant was suspended', ofTenant)
/** A second caller of a suspension also depends on it, so the first one must be able to learn of it. */
export const TenantSuspensionRepeated = event(
  'TenantSuspensionRepeated',
  'A suspension was requested for a suspended tenant',
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
  'A deleted tenant was restored, or a tenant was restored from a backup',
  z.object({ tenantId, from: z.enum(['deletion', 'backup']) }),
)
export const TenantEnteredMaintenance = event(
  'TenantEnteredMaintenance',
  'A tenant was put into maintenance',
  z.object({ tenantId, message: z.string().nullable(), retryAfterSeconds: z.number() }),
)
export const TenantExitedMaintenance = event('TenantExitedMaintenance', 'A tenant left maintenance', ofTenant)
export const TenantPurged = event('TenantPurged', 'All data of a tenant was removed; its id stays reserved', ofTenant)
export const TenantErased = event(
  'TenantErased',
  'A tenant was erased from all systems, and its signed report is complete; the last event of a tenant',
  z.object({
    tenantId,
    kept: z
      .number()
      .int()
      .meta({ description: 'Number of kept records, such as sealed audit entries; the report lists them' }),
  }),
)

const where = z.object({ isolation: z.string(), placement: z.string() })

export const TenantBackedUp = event(
  'TenantBackedUp',
  'A backup of a tenant was completed',
  z.object({ tenantId, backupId: z.uuid(), sizeBytes: z.number().int() }),
)
export const TenantCloned = event(
  'TenantCloned',
  "A tenant was created from another's storage and is active",
  z.object({ tenantId, sourceId: z.string() }),
)
export const TenantMoved = event(
  'TenantMoved',
  'A tenant was switched to other storage, on another driver or server',
  z.object({
    tenantId,
    from: where,
    to: where,
    isUndone: z.boolean().meta({ description: 'Whether the tenant returned to its former storage' }),
  }),
)
