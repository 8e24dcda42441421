/** Runs the request of a delivery in a span of the trace of its dispatch. */
import { currentContext, enterContext } from '../../../kernel/base/context.ts'
import type { Tracing } from '../../../kernel/resilience/tracing.ts'
import type { Exchange } from '../model/request.ts'
import type { Claimed } from '../queue/queue.ts'

type Send = (traceparent: string | undefined) => Promise<Exchange | undefined>

/** @param send receives the header `traceparent` of the request */
export function inDeliverySpan({ span, ...tracing }: Tracing, delivery: Claimed, send: Send) {
  const traceparent = delivery.traceparent ?? undefined
  if (!span) return send(traceparent)
  const attributes = {
    'http.request.method': 'POST',
    'tenantry.tenant_id': delivery.tenantId,
    'tenantry.event': delivery.event,
    'tenantry.webhook_id': delivery.webhookId,
    'tenantry.delivery_id': delivery.id,
    'tenantry.attempt': delivery.attemptCount + 1,
  }
  return enterContext({ ...currentContext(), traceparent }, () =>
    span({ name: 'webhook delivery', kind: 'client', attributes }, async (own) => {
      const exchange = await send(tracing.traceparent())
      if (!exchange) return exchange
      const { status, error } = exchange
      own.set({ 'http.response.status_code': status })
      if (error !== null || status === null || status >= 300) own.fail(error ?? String(status))
      return exchange
    }),
  )
}
