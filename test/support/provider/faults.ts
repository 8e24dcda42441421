/** Injects faults into requests and responses. Faults can be added and cleared at any time. */

import { bodyOf } from './errors.ts'
import type { ProviderRequest, ProviderResponse } from './responder.ts'

export interface Where {
  /** Prefix of a path, e.g. `/v1/invoices`, or a pattern; undefined: all paths. */
  readonly path?: string | RegExp
  readonly method?: 'GET' | 'POST' | 'DELETE'
}

export interface Limited extends Where {
  /** Number of requests; undefined: until `clear()`. */
  readonly times?: number
}

export interface Held {
  /** Resolves when a request is executed and its response is held back. */
  readonly arrived: Promise<void>
  /** Sends the held responses, and holds back no further ones. */
  release(): void
}

export interface Faults {
  /** Responds without executing the request. */
  respond(status: number, how?: Limited & { readonly headers?: Readonly<Record<string, string>> }): void
  /** Executes the request, and resets the connection before the response. Default: once. */
  cut(how?: Limited): void
  /** Executes the request, and responds 500 with a header that keeps the client from retrying. Default: once. */
  lose(how?: Limited): void
  /** Executes the next requests, and holds back their responses until they are released. Default: one request. */
  hold(how?: Limited): Held
  clear(): void
  readonly counts: { readonly cut: number }
}

export interface FaultsInside extends Faults {
  /** Response in place of an execution. */
  instead(request: ProviderRequest): ProviderResponse | undefined
  /** Waits until the response may be sent, and returns its fate. */
  before(request: ProviderRequest): Promise<'send' | 'cut' | 'lose'>
  /** Response in place of a lost one. */
  readonly lost: ProviderResponse
}

interface Active extends Limited {
  left: number
}

export function createFaults(): FaultsInside {
  const counts = { cut: 0 }
  let responses: (Active & { status: number; headers: Readonly<Record<string, string>> })[] = []
  let cuts: Active[] = []
  let losses: Active[] = []
  const holds: (Active & { arrive: () => void; released: Promise<void>; release: () => void })[] = []

  return {
    counts,
    respond(status, { headers = {}, times = Infinity, ...where } = {}) {
      responses.push({ ...where, left: times, status, headers })
    },
    cut({ times = 1, ...where } = {}) {
      cuts.push({ ...where, left: times })
    },
    lose({ times = 1, ...where } = {}) {
      losses.push({ ...where, left: times })
    },
    hold({ times = 1, ...where } = {}) {
      const arrived = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      const hold = {
        ...where,
        left: times,
        arrive: arrived.resolve,
        released: released.promise,
        release: released.resolve,
      }
      holds.push(hold)
      return {
        arrived: arrived.promise,
        release() {
          hold.left = 0
          released.resolve()
        },
      }
    },
    clear() {
      responses = []
      cuts = []
      losses = []
      for (const { release } of holds.splice(0)) release()
    },
    instead(request) {
      const fault = taken(responses, request)
      if (!fault) return undefined
      return { status: fault.status, headers: fault.headers, body: { error: bodyOf(fault.status) } }
    },
    lost: { status: 500, headers: { 'stripe-should-retry': 'false' }, body: { error: bodyOf(500) } },
    async before(request) {
      const hold = taken(holds, request)
      if (hold) {
        hold.arrive()
        await hold.released
      }
      if (taken(losses, request)) return 'lose'
      if (!taken(cuts, request)) return 'send'
      counts.cut += 1
      return 'cut'
    },
  }
}

/** Uses the first matching fault that is not used up. */
function taken<Fault extends Active>(faults: readonly Fault[], request: ProviderRequest): Fault | undefined {
  const fault = faults.find((one) => one.left > 0 && isAt(one, request))
  if (fault) fault.left -= 1
  return fault
}

function isAt({ path, method }: Where, request: ProviderRequest): boolean {
  if (method !== undefined && method !== request.method) return false
  if (path === undefined) return true
  return typeof path === 'string' ? request.path.startsWith(path) : path.test(request.path)
}
