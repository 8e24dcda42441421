/**
 * The event of a change by an administrator, the host or Tenantry. A service publishes it in the transaction of the change; the actor and
 * the request are in the context. The audit log listens to it. A change in a tenant's transaction is posted to its outbox.
 */
import { z } from 'zod'
import { parsed, toJson } from '../base/validate.ts'
import { joinedOutbox } from '../outbox/joining.ts'
import { eachEntry, type OutboxEntry, outboxEntry } from '../outbox/kinds.ts'
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
    /** False for a use that changes nothing: it is not in the stream of changes. */
    isChange: z.boolean().default(true),
  }),
)

export type Change = z.input<typeof ChangeRecorded.own>

/** A change as a caller gives it. Entries of the outbox from earlier releases may have empty texts. */
const GivenChange = z.strictObject({
  ...ChangeRecorded.own.shape,
  action: z.string().min(1),
  target: z.string().min(1),
})

const KIND = 'changes.record'

/**
 * Records a change in the transaction in progress: that of the backoffice, or that of the tenant.
 *
 * @throws E_INVALID_REQUEST with each wrong or unknown member, such as `change.action`, and for a change that is not JSON
 */
export async function recordChange(events: Events, change: Change): Promise<void> {
  toJson(change, 'change')
  const valid = parsed(GivenChange, change, 'change')
  const outbox = joinedOutbox(change.tenantId)
  if (outbox) await outbox.post(KIND, valid)
  else await events.publish(ChangeRecorded, valid)
}

export const recordedChanges = outboxEntry(
  KIND,
  ChangeRecorded.own.omit({ tenantId: true }),
  eachEntry(({ events }: { readonly events: Events }, { tenantId, payload, postedAt }: OutboxEntry) =>
    events.publish(ChangeRecorded, { ...payload, tenantId }, postedAt),
  ),
)
