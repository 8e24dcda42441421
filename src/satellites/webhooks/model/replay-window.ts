import { z } from 'zod'
import { MomentOrDate } from '../../../kernel/api/page.ts'

/** What of the failed deliveries of a subscription is replayed: by when they were dispatched. */
export const ReplayWindow = z
  .strictObject({
    from: MomentOrDate.optional().describe('Inclusive; absent: from the oldest that is kept'),
    to: MomentOrDate.optional().describe('Exclusive; absent: up to now'),
    dryRun: z.boolean().default(false).describe('Only counts them'),
  })
  .refine(({ from, to }) => !from || !to || from < to, { error: 'from is not before to', path: ['from'] })
