/**
 * Counts the responses of handlers of the web standard for the traffic listeners.
 *
 * - A body is counted as the server reads it. A request ends with its body, or when the client disconnects.
 * - A server does not read the body of a response to HEAD.
 */
import type { Traffic } from '../../kernel/api/traffic.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'

const INTERNAL_ERROR = 500
/** Such as `NEXT_REDIRECT;replace;/login;307;` and `NEXT_HTTP_ERROR_FALLBACK;404`. */
const NEXT_DIGEST = /^NEXT_(?:REDIRECT|HTTP_ERROR_FALLBACK);(?:.*;)?([1-5]\d\d);?$/

const measuredBy = new WeakMap<Request, Set<Traffic>>()

/** Returns the response, with a counted body if there are a tenant and a listener. A second guard of the same tenancy has no effect. */
export async function measureFetch(
  traffic: Traffic | undefined,
  tenant: Tenant | undefined,
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
    status = thrownStatus(error) // the framework responds
    report()
    throw error
  }
}

/** Redirects and errors of SvelteKit and React Router are no `Error` and have a status, those of Next.js have it at the end of `digest`. */
function thrownStatus(error: unknown): number {
  const { status, digest } = (error ?? {}) as { readonly status?: unknown; readonly digest?: unknown }
  if (!(error instanceof Error)) return typeof status === 'number' ? status : INTERNAL_ERROR
  const code = typeof digest === 'string' ? NEXT_DIGEST.exec(digest)?.[1] : undefined
  return code === undefined ? INTERNAL_ERROR : Number(code)
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
