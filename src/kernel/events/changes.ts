/**
 * The event of a change by an administrator, the host or Tenantry. A service publishes it in the transaction of the change; the actor and
 * the request are in the context. The audit log listens to it.
 */
import { z } from 'zod'
import { parsed } from '../base/validate.ts'
import { type Events, event } from './events.ts'

const image = z.record(z.string(), z.unknown()).nullable()

export const ChangeRecorded = event(
  'ChangeRecorded',
  'Something was changed; for listeners inside Tenantry',
  z.object({
    /** The operation's dotted name, e.g. `tenants.suspend`. */
    action: z.string(),
    tenantId: z.string().nullable(),
    /** The changed object, e.g. `tenant:acme`. */
    target: z.string(),
    before: image.default(null),
    after: image.default(null),
    outcome: z.enum(['success', 'failure']).default('success'),
  }),
)

export type Change = z.input<typeof ChangeRecorded.own>

/** @throws E_INVALID_REQUEST with each wrong member, such as `change.action` */
export const recordChange = async (events: Events, change: Change): Promise<void> => {
  await events.publish(ChangeRecorded, parsed(ChangeRecorded.own, change, 'change'))
}
