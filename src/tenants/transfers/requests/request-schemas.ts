/** Schemas of transfer requests. */
import { z } from 'zod'
import { isValidPostgresText } from '../../../kernel/database/postgres-text.ts'
import { Metadata, Placement, TenantId, TenantName } from '../../tenant/tenant.ts'

export const Note = z
  .string()
  .trim()
  .max(500)
  .refine(isValidPostgresText, 'must not contain NUL or an unpaired surrogate')

const isolation = z
  .string()
  .min(1)
  .max(64)
  .optional()
  .meta({ description: 'Isolation driver; default: the current one' })
const placement = Placement.optional().meta({
  description: 'PostgreSQL server of the configuration; default: the current one',
})

export const BackupRequest = z.strictObject({ note: Note.nullish() })

export const RestoreRequest = z.strictObject({
  backupId: z.uuid(),
  isolation,
  placement,
  rehearse: z.boolean().default(false).meta({
    description: 'Whether to restore into separate storage, compare, and drop it: the tenant stays unchanged',
  }),
})

export const CloneRequest = z.strictObject({
  id: TenantId.optional(),
  name: TenantName,
  metadata: Metadata.optional().meta({ description: 'Metadata; default: that of the cloned tenant' }),
  data: z.boolean().default(true).meta({ description: 'Whether to copy the rows' }),
})

export const MoveRequest = z
  .strictObject({
    isolation,
    placement,
    undo: z.boolean().default(false).meta({
      description: 'Whether to return to the former storage; later writes stay in the storage that it leaves',
    }),
  })
  .refine((request) => request.undo !== (request.isolation !== undefined || request.placement !== undefined), {
    error: 'must have an isolation, a placement, or undo',
  })
