/**
 * Disables a subscription whose receiver responds with 410 or only fails for days. One of several workers does so and records it. A
 * subscription that has changed its URL or was enabled again since the request stays enabled.
 */
import { enterContext, SYSTEM } from '../../../kernel/base/context.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { WebhookSubscriptionDisabled } from '../model/events.ts'
import type { WebhookTables } from '../model/tables.ts'
import { CHANNEL } from '../sql/functions.ts'
import { actionOf } from './subscriptions.ts'

/** The state of the subscription that a failed delivery was sent with. */
export interface Disabling {
  readonly reason: 'gone' | 'failing'
  readonly url: string
  readonly generation: number | null
  readonly failingSince: Date | null
}

export async function disable(
  { database, events, clock }: Kernel,
  webhookId: string,
  { reason, url, failingSince, generation }: Disabling,
): Promise<void> {
  const work = async () => {
    const row = await database
      .query<WebhookTables>()
      .updateTable('webhookSubscriptions')
      .set({ enabled: false, disabledReason: reason, updatedAt: clock.now() })
      .where('id', '=', webhookId)
      .where('enabled', '=', true)
      .where('deletedAt', 'is', null)
      .where('url', '=', url)
      .$if(reason === 'gone', (query) => query.where('generation', '=', generation))
      .$if(reason === 'failing', (query) => query.where('failingSince', '=', failingSince))
      .returning('tenantId')
      .executeTakeFirst()
    if (!row) return
    const { tenantId } = row
    await database.notify(CHANNEL, webhookId)
    await recordChange(events, {
      action: actionOf(tenantId, 'webhooks.disable'),
      tenantId,
      target: `webhook:${webhookId}`,
      before: { enabled: true },
      after: { enabled: false, disabledReason: reason },
    })
    await events.publish(WebhookSubscriptionDisabled, { tenantId, webhookId, reason })
  }
  await enterContext({ requestId: null, actor: SYSTEM, ip: null }, () => database.transaction(work))
}
