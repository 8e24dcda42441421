/**
 * Counts the responses of handlers of the web standard for the traffic listeners.
 *
 * - A body is counted as the server reads it. A request ends with its body, or when the client disconnects.
 * - A server does not read the body of a response to HEAD.
 */
import type { Traffic } from '../../kernel/api/traffic.ts'
import type { GuardedTenant } from '../../tenants/guard/guard.ts'

const INTERNAL_ERROR = 500

const measuredBy = new WeakMap<Request, Set<Traffic>>()

/** Returns the response, with a counted body if there are a tenant and a listener. A second guard of the same tenancy has no effect. */
export async function measureFetch(
  traffic: Traffic | undefined,
  tenant: GuardedTenant | undefined,
  request: Request,
  response: Promise<Response>,
): Promise<Response> {
  if (traffic === undefined || tenant === undefined || !isFirst(traffic, request)) return response
  let bytes = 0
  let status = 0
  let isReported = false
  const report = (): void => {
    if (isReported) return
    isReported = true
    request.signal.removeEventListener('abort', report)
    traffic.requestEnded(tenant.id, status, bytes)
  }
  request.signal.addEventListener('abort', report)
  try {
    const made = await response
    status = made.status
    if (made.body === null || request.method === 'HEAD') {
      report()
      return made
    }
    const body = counted(made.body, (length) => {
      bytes += length
    })
    return new Response(body(report), made)
  } catch (error) {
    status = INTERNAL_ERROR // the framework responds
    report()
    throw error
  }
}

function isFirst(traffic: Traffic, request: Request): boolean {
  const before = measuredBy.get(request) ?? new Set()
  if (before.has(traffic)) return false
  measuredBy.set(request, before.add(traffic))
  return true
}

/** Calls `ended` after the last part, an error, or the cancellation by the server. */
const counted =
  (source: ReadableStream<Uint8Array>, count: (length: number) => void) =>
  (ended: () => void): ReadableStream<Uint8Array> => {
    const reader = source.getReader()
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const { done, value } = await reader.read()
            if (done) {
              ended()
              controller.close()
            } else {
              count(value.byteLength)
              controller.enqueue(value)
            }
          } catch (error) {
            ended()
            throw error
          }
        },
        async cancel(reason) {
          ended()
          await reader.cancel(reason)
        },
      },
      { highWaterMark: 0 },
    )
  }
