/**
 * One circuit of one dependency.
 *
 *   CLOSED ──half of at least 10 calls in 10 s failed──► OPEN ──30 s later──► HALF_OPEN ──the probe succeeds──► CLOSED
 *                                                         ▲                       │
 *                                                         └────the probe fails────┘
 *
 * - `settle` counts a call only in the era in which it started: an old call neither opens nor closes a later circuit.
 * - `beginProbe` starts the one call of HALF_OPEN. A probe without a result is abandoned after the time that a circuit stays open.
 * - cockatiel's CircuitBreaker makes the transitions. `CallWindow` counts, because a successful call then costs nanoseconds. The time
 *   of a probe is decided across all processes, so cockatiel is called only for a failure that opens and for a probe.
 */
import { CircuitState as Breaker, type CircuitBreakerPolicy, circuitBreaker, handleAll } from 'cockatiel'
import { CallWindow } from './call-window.ts'

export type CircuitState = 'CLOSED' | 'HALF_OPEN' | 'OPEN'

/** `neither`: the dependency was not called, or the outcome is unknown. */
export type Outcome = 'success' | 'failure' | 'neither'

/** The change by an outcome; `undecided`: the probe had no result, and another may start. */
export type Transition = 'opened' | 'closed' | 'undecided'

export interface CircuitRule {
  /** The share of calls that must fail; default 0.5. */
  readonly threshold: number
  /** With fewer calls than these in the window a circuit stays closed; default 10. */
  readonly minimumCalls: number
  /** Default 10. */
  readonly windowSeconds: number
  /** How long an open circuit refuses before it lets a probe go; default 30. */
  readonly halfOpenAfterSeconds: number
}

export const CIRCUIT_RULE: CircuitRule = {
  threshold: 0.5,
  minimumCalls: 10,
  windowSeconds: 10,
  halfOpenAfterSeconds: 30,
}

/** A circuit that was open for this multiple of its time without a call counts as closed: its state is unknown. */
const KEPT_TIMES = 10

export const keptSeconds = ({ halfOpenAfterSeconds }: CircuitRule): number => KEPT_TIMES * halfOpenAfterSeconds

/** The state of a circuit without a probe in progress. */
export function stateSince(openedAtMs: number, nowMs: number, rule: CircuitRule): CircuitState {
  if (nowMs >= openedAtMs + keptSeconds(rule) * 1_000) return 'CLOSED'
  return nowMs >= openedAtMs + rule.halfOpenAfterSeconds * 1_000 ? 'HALF_OPEN' : 'OPEN'
}

/** The duration of a running probe is unknown. */
const RETRY_DURING_PROBE_MS = 1_000

interface Probe {
  readonly startedAtMs: number
  readonly succeed: () => void
  readonly fail: () => void
  readonly ended: Promise<void>
}

export class Circuit {
  readonly #rule: CircuitRule
  readonly #calls: CallWindow
  #policy: CircuitBreakerPolicy | undefined
  #probe: Probe | undefined
  #openedAtMs: number | undefined
  #closedAtMs = Number.NEGATIVE_INFINITY
  #notBeforeMs = 0
  #era = 0

  constructor(rule: CircuitRule) {
    this.#rule = rule
    this.#calls = new CallWindow(rule.windowSeconds * 1_000)
  }

  /** Called for every call, so it does not read the time: an expired circuit rejects until it is closed. */
  get isClosed(): boolean {
    return this.#openedAtMs === undefined
  }

  /** When it last opened; undefined while it is closed. */
  get openedAtMs(): number | undefined {
    return this.#openedAtMs
  }

  /** Minus infinity when it has never been open. */
  get closedAtMs(): number {
    return this.#closedAtMs
  }

  /** Changes whenever the circuit does; a call takes it along to `settle`. */
  get era(): number {
    return this.#era
  }

  stateAt(nowMs: number): CircuitState {
    if (this.#openedAtMs === undefined) return 'CLOSED'
    return this.isProbing(nowMs) ? 'HALF_OPEN' : stateSince(this.#openedAtMs, nowMs, this.#rule)
  }

  isProbing(nowMs: number): boolean {
    return this.#probe !== undefined && nowMs < this.#probe.startedAtMs + this.#openMs
  }

  /** How long a call is refused; 0 when it may go, be it as the probe. */
  rejectedForMs(nowMs: number): number {
    if (this.#openedAtMs === undefined) return 0
    if (this.isProbing(nowMs)) return RETRY_DURING_PROBE_MS
    return Math.max(0, this.#openedAtMs + this.#openMs - nowMs, this.#notBeforeMs - nowMs)
  }

  /** A call of a closed circuit succeeded: `settle` in brief, for every call there is. */
  succeeded(era: number, nowMs: number): void {
    if (era === this.#era) this.#calls.succeeded(nowMs)
  }

  /** A call that started in `era` has ended. Of calls that end together, one receives the change. */
  async settle(era: number, outcome: Outcome, nowMs: number): Promise<Transition | undefined> {
    if (era !== this.#era) return undefined
    if (this.#probe) return this.#settleProbe(this.#probe, outcome, nowMs)
    if (outcome === 'failure') return this.#failed(nowMs)
    if (outcome === 'success') this.#calls.succeeded(nowMs)
    return undefined
  }

  /** The next call is the probe. Only when `rejectedForMs` is 0 and it is not closed. */
  beginProbe(nowMs: number): void {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#policy = this.#breaker({ value: Breaker.Open, openedAt: 0, attemptNo: 1 })
    this.#probe = {
      startedAtMs: nowMs,
      succeed: resolve,
      fail: () => reject(new Error('the probe failed')),
      ended: ended(this.#policy.execute(() => promise)),
    }
    this.#era++
  }

  /** Another process holds the probe: none from here until then. */
  waitUntil(timeMs: number): void {
    this.#notBeforeMs = timeMs
  }

  /** @param openedAtMs by a clock that may be another's: what lies in the future is now. */
  open(openedAtMs: number, nowMs: number): void {
    this.#openedAtMs = Math.min(openedAtMs, nowMs)
    this.#begin()
  }

  close(nowMs: number): void {
    this.#openedAtMs = undefined
    this.#closedAtMs = nowMs
    this.#begin()
  }

  get #openMs(): number {
    return this.#rule.halfOpenAfterSeconds * 1_000
  }

  #begin(): void {
    this.#era++
    this.#notBeforeMs = 0
    this.#probe = undefined
    this.#policy = undefined
    this.#calls.clear()
  }

  async #failed(nowMs: number): Promise<Transition | undefined> {
    this.#calls.failed(nowMs)
    if (!this.#calls.isFailing(this.#rule.threshold, this.#rule.minimumCalls)) return undefined
    const policy = this.#policy ?? this.#breaker()
    this.#policy = policy
    await ended(policy.execute(() => Promise.reject(new Error('a call failed'))))
    if (policy !== this.#policy || policy.state !== Breaker.Open) return undefined // another call was first
    this.open(nowMs, nowMs)
    return 'opened'
  }

  async #settleProbe(probe: Probe, outcome: Outcome, nowMs: number): Promise<Transition | undefined> {
    const policy = this.#policy
    if (outcome === 'success') probe.succeed()
    else probe.fail()
    await probe.ended
    if (probe !== this.#probe) return undefined
    if (policy?.state === Breaker.Closed) {
      this.close(nowMs)
      return 'closed'
    }
    if (outcome === 'failure') {
      this.open(nowMs, nowMs)
      return 'opened'
    }
    this.#probe = undefined
    this.#era++
    return 'undecided'
  }

  #breaker(ownState?: object): CircuitBreakerPolicy {
    return circuitBreaker(handleAll, {
      halfOpenAfter: Number.NEGATIVE_INFINITY, // its caller has waited already
      breaker: { state: null, success: () => undefined, failure: () => true },
      ...(ownState ? { initialState: { ownState, breakerState: null } } : {}),
    })
  }
}

/** cockatiel returns the given outcome, also a failure; it is ignored here. */
const ended = (execution: Promise<unknown>): Promise<void> =>
  execution.then(
    () => undefined,
    () => undefined,
  )
