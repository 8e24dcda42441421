import { z } from 'zod'
import { MomentOrDate } from '../../../kernel/api/page.ts'

/** Selects failed deliveries of a subscription by the time of their dispatch. */
export const ReplayWindow = z
  .strictObject({
    from: MomentOrDate.optional().describe('Inclusive; default: the oldest delivery'),
    to: MomentOrDate.optional().describe('Exclusive; default: now'),
    dryRun: z.boolean().default(false).describe('Only count the deliveries'),
  })
  .refine(({ from, to }) => !from || !to || from < to, { error: 'must be before `to`', path: ['from'] })
