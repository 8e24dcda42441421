import { z } from 'zod'

export const Options = z.strictObject({
  /** Minimum retention of entries, in whole months. Absent: unlimited. */
  retentionDays: z.int().min(1).max(36_500).optional(),
})
export type AuditOptions = z.input<typeof Options>
