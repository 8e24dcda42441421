/** What may be asked of transfers. */
import { z } from 'zod'
import { isStorable } from '../../../kernel/base/postgres-text.ts'
import { Metadata, Placement, TenantId, TenantName } from '../../tenant/tenant.ts'

export const Note = z.string().trim().max(500).refine(isStorable, 'must not contain NUL or an unpaired surrogate')

const isolation = z.string().min(1).max(64).optional().meta({ description: 'An isolation driver; its own if absent' })
const placement = Placement.optional().meta({
  description: 'A PostgreSQL server of the configuration; its own if absent',
})

export const BackupRequest = z.strictObject({ note: Note.nullish() })

export const RestoreRequest = z.strictObject({
  backupId: z.uuid(),
  isolation,
  placement,
  rehearse: z
    .boolean()
    .default(false)
    .meta({ description: 'Restore beside, compare, throw away: the tenant stays as it is' }),
})

export const CloneRequest = z.strictObject({
  id: TenantId.optional(),
  name: TenantName,
  metadata: Metadata.optional().meta({ description: 'That of the tenant that is cloned, if absent' }),
  data: z.boolean().default(true).meta({ description: 'Whether the rows are copied, too' }),
})

export const MoveRequest = z
  .strictObject({
    isolation,
    placement,
    undo: z
      .boolean()
      .default(false)
      .meta({ description: 'Back to the storage that it left last; what was written since stays behind' }),
  })
  .refine((request) => request.undo !== (request.isolation !== undefined || request.placement !== undefined), {
    error: 'name an isolation or a placement, or undo',
  })
