import { z } from 'zod'
import { GUARDED, MetricKey } from './key.ts'

/** Options of this satellite. The service's settings of the same name have others, too. */
export const Options = z.object({
  retentionDays: z.int().min(1).max(36_500).optional(),
  metrics: z
    .array(MetricKey.refine((key) => !GUARDED.has(key), 'is reserved for the guard'))
    .readonly()
    .optional(),
})
