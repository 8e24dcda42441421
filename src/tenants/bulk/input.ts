/** The operations of bulk jobs, and their input. */
import { z } from 'zod'
import { MaintenanceRequest } from '../tenant/tenant.ts'

/** The operations of tenants that a bulk job can carry out. */
export const BULK_OPERATIONS = [
  'tenants.suspend',
  'tenants.activate',
  'tenants.delete',
  'tenants.restore',
  'tenants.enterMaintenance',
  'tenants.exitMaintenance',
  'tenants.setPlan',
] as const
export type BulkOperation = (typeof BULK_OPERATIONS)[number]

/** Input of the operation, the same for each tenant. */
export const Input = z.object({
  plan: z.string().min(1).max(128).optional().meta({ description: 'Of `tenants.setPlan`: name of the plan' }),
  message: MaintenanceRequest.shape.message.meta({ description: 'Of `tenants.enterMaintenance`: message to users' }),
  retryAfterSeconds: MaintenanceRequest.shape.retryAfterSeconds
    .unwrap()
    .optional()
    .meta({ description: 'Of `tenants.enterMaintenance`: time to retry; default 60' }),
})
export type BulkInput = z.output<typeof Input>
