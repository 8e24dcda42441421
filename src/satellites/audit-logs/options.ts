import { z } from 'zod'

export const Options = z.strictObject({
  /** How long entries are kept at least; they go by whole months. Absent: for ever. */
  retentionDays: z.int().min(1).max(36_500).optional(),
})
export type AuditOptions = z.input<typeof Options>
