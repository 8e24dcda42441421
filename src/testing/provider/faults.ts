/** What can go wrong on the way to the provider and back. Each can be switched at any time, and says how often it happened. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Answer, ProviderRequest } from './answer.ts'
import { bodyOf } from './errors.ts'

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
  /** The request was carried out, and its answer is kept back. */
  readonly arrived: Promise<void>
  /** The answer goes out; if none has come, none is kept back any more. */
  release(): void
}

export interface Faults {
  /** Every answer comes so much later; what was asked is carried out at once. 0: no later. */
  slow(ms: number, where?: Where): void
  /** This instead of carrying it out. */
  answer(status: number, how?: Limited & { readonly headers?: Readonly<Record<string, string>> }): void
  /** Carried out, but the connection is reset before the answer. Once, if not said otherwise. */
  cut(how?: Limited): void
  /** The next one is carried out, but its answer is kept back until it is released. */
  hold(where?: Where): Held
  clear(): void
  readonly counts: { readonly slowed: number; readonly answered: number; readonly cut: number; readonly held: number }
}

export interface FaultsInside extends Faults {
  /** The answer that replaces carrying it out. */
  instead(request: ProviderRequest): Answer | undefined
  /** Whether the answer may go out, when it may. */
  before(request: ProviderRequest): Promise<'send' | 'cut'>
}

interface Active extends Limited {
  left: number
}

export function createFaults(): FaultsInside {
  const counts = { slowed: 0, answered: 0, cut: 0, held: 0 }
  let slowed: { ms: number; where: Where } | undefined
  let answers: (Active & { status: number; headers: Readonly<Record<string, string>> })[] = []
  let cuts: Active[] = []
  const holds: (Active & { arrive: () => void; released: Promise<void>; release: () => void })[] = []

  return {
    counts,
    slow(ms, where = {}) {
      slowed = ms > 0 ? { ms, where } : undefined
    },
    answer(status, { headers = {}, times = Infinity, ...where } = {}) {
      answers.push({ ...where, left: times, status, headers })
    },
    cut({ times = 1, ...where } = {}) {
      cuts.push({ ...where, left: times })
    },
    hold(where = {}) {
      const arrived = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      const hold = { ...where, left: 1, arrive: arrived.resolve, released: released.promise, release: released.resolve }
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
      slowed = undefined
      answers = []
      cuts = []
      for (const { release } of holds.splice(0)) release()
    },
    instead(request) {
      const fault = taken(answers, request)
      if (!fault) return undefined
      counts.answered += 1
      return { status: fault.status, headers: fault.headers, body: { error: bodyOf(fault.status) } }
    },
    async before(request) {
      const hold = taken(holds, request)
      if (hold) {
        counts.held += 1
        hold.arrive()
        await hold.released
      }
      if (slowed && isAt(slowed.where, request)) {
        counts.slowed += 1
        await delay(slowed.ms, undefined, { ref: false })
      }
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
