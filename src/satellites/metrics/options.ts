import { z } from 'zod'

/** Options of this satellite. The service's settings of the same name have others, too. */
export const Options = z.object({ retentionDays: z.int().min(1).max(36_500).optional() })
