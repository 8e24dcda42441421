/**
 * What an admin, the host or Tenantry itself changed. A service records each change in the transaction that makes it; who did
 * it, and in which request, is in the context. The audit log is one listener of this event; without it, nobody listens.
 */
import { z } from 'zod'
import { type Events, event } from './events.ts'

const image = z.record(z.string(), z.unknown()).nullable()

export const ChangeRecorded = event(
  'ChangeRecorded',
  'Something was changed; for listeners inside Tenantry',
  z.object({
    /** The operation's dotted name, e.g. `tenants.suspend`. */
    action: z.string(),
    tenantId: z.string().nullable(),
    /** What was changed, e.g. `tenant:acme`. */
    target: z.string(),
    before: image.default(null),
    after: image.default(null),
    outcome: z.enum(['success', 'failure']).default('success'),
  }),
)

export type Change = z.input<typeof ChangeRecorded.own>

export const recordChange = async (events: Events, change: Change): Promise<void> => {
  await events.publish(ChangeRecorded, change)
}
