/** Sends a delivery once. */

import { SECRET_IS_CLOSED } from '../model/delivery.ts'
import type { Claimed } from '../queue/queue.ts'
import type { WorkerDependencies, WorkerOptions } from './options.ts'
import { type Exchange, exchangeOf, notSent, requestFor } from './request.ts'

/** For somebody to give this process the key that it lacks, or for another process that has it. */
const PUT_OFF_MS = 60_000

/** What came of it; undefined when it could not be signed here, and is put off. */
export async function send(
  { kernel, releasedClaims, egress, secretsOf }: WorkerDependencies,
  delivery: Claimed,
  {
    timeoutMs,
    listener,
    nowMs,
    signal,
  }: Pick<WorkerOptions, 'timeoutMs' | 'listener'> & {
    readonly nowMs: number
    readonly signal: AbortSignal
  },
): Promise<Exchange | undefined> {
  if (delivery.body === null) return notSent('its body is not kept any more')
  let secrets: readonly string[]
  try {
    secrets = secretsOf(delivery)
  } catch (error) {
    kernel.log.error({ err: error, webhookId: delivery.webhookId }, 'the secret of a subscription cannot be opened')
    await releasedClaims.putOff(delivery, SECRET_IS_CLOSED, PUT_OFF_MS)
    return undefined
  }
  const request = requestFor(delivery, delivery.body, listener?.url ?? delivery.url, secrets, nowMs)
  return exchangeOf(request, await egress.send({ ...request, timeoutMs, signal }))
}
