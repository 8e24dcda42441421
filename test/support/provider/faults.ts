/** What can go wrong on the way to the provider and back. Each can be switched at any time. */

import { bodyOf } from './errors.ts'
import type { ProviderRequest, ProviderResponse } from './responder.ts'

export interface Where {
  /** The beginning of a path, e.g. `/v1/invoices`, or a pattern; undefined: everything. */
  readonly path?: string | RegExp
  readonly method?: 'GET' | 'POST' | 'DELETE'
}

export interface Limited extends Where {
  /** So many times, then no more; undefined: until `clear()`. */
  readonly times?: number
}

export interface Held {
  /** A request was carried out, and its answer is kept back. */
  readonly arrived: Promise<void>
  /** The answers go out; no other is kept back any more. */
  release(): void
}

export interface Faults {
  /** This instead of carrying it out. */
  respond(status: number, how?: Limited & { readonly headers?: Readonly<Record<string, string>> }): void
  /** Carried out, but the connection is reset before the answer. Once, if not said otherwise. */
  cut(how?: Limited): void
  /** Carried out, but answered with 500, which the client does not send again. Once, if not said otherwise. */
  lose(how?: Limited): void
  /** The next requests are carried out, but their answers are kept back until they are released. One, if not said otherwise. */
  hold(how?: Limited): Held
  clear(): void
  readonly counts: { readonly cut: number }
}

export interface FaultsInside extends Faults {
  /** The answer that replaces carrying it out. */
  instead(request: ProviderRequest): ProviderResponse | undefined
  /** Whether the answer may go out, when it may. */
  before(request: ProviderRequest): Promise<'send' | 'cut' | 'lose'>
  /** The answer that goes out for one that is lost. */
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

/** The first that is for this request and not used up, used once more. */
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
