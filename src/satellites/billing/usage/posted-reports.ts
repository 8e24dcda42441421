/** Calls of `reportUsage` inside a tenant's transaction: an entry of its outbox, reported after the commit. */
import { z } from 'zod'
import { eachEntry, type OutboxEntry, outboxEntry } from '../../../kernel/outbox/kinds.ts'
import type { Usage } from './usage.ts'

export const REPORT_USAGE = 'billing.reportUsage'

const Report = z.object({ id: z.uuid(), meter: z.string().min(1).max(100), quantity: z.int().min(1) })

export const postedReports = outboxEntry(
  REPORT_USAGE,
  Report,
  eachEntry(({ usage }: { readonly usage: Usage }, entry: OutboxEntry<z.output<typeof Report>>) => {
    const { id, meter, quantity } = entry.payload
    return usage.report(entry.tenantId, { meter, quantity, at: entry.postedAt }, id)
  }),
)
