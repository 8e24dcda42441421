import { z } from 'zod'

/** Beside them the service's settings have others of the same name, which are not for this. */
export const Options = z.object({ retentionDays: z.int().min(1).max(36_500).optional() })
