/**
 * Runs the readiness checks, each with a timeout of two seconds: `ok` if all pass, `fail` if all or a critical one fail or the process
 * drains, else `degraded`. A public `message` names no host, tenant or credential; the admin API and the log have the full text. The log
 * has a line when a check starts to fail, fails for a new reason, or recovers.
 */
import type { Logger } from '../base/logger.ts'
import { withTimeout } from '../base/with-timeout.ts'
import { WRITE_FAILURES } from '../database/write-failures.ts'

export const CHECK_TIMEOUT_MS = 2_000

/**
 * A check fails when it throws or returns `{ status: 'fail' }`. Its returned text or `message` is public, on `/readyz` too;
 * the text of an error is not (`CheckFailure` excepted).
 *
 * @example health.register('disk', () => (isFull() ? { status: 'fail', message: 'disk full' } : { status: 'pass' }))
 */
export type Check = () => CheckReturn | Promise<CheckReturn>

// biome-ignore lint/suspicious/noConfusingVoidType: a check that only throws returns nothing
export type CheckReturn = void | string | { readonly status: 'pass' | 'fail'; readonly message?: string }

/** A failure with a public text. */
export class CheckFailure extends Error {}

export interface CheckResult {
  readonly status: 'pass' | 'fail'
  readonly durationMs: number
  readonly message?: string
}

export interface HealthReport {
  readonly status: 'ok' | 'degraded' | 'fail'
  readonly checks: Readonly<Record<string, CheckResult>>
}

export interface Health {
  register(name: string, check: Check): void
  /** `detailed` puts the errors' own words into `message`. */
  report(options?: { detailed?: boolean }): Promise<HealthReport>
  /** From now on the report is `fail`: load balancers send no further requests to this process, which is about to stop. */
  startDrain(): void
}

export interface HealthOptions {
  /** Receives a line when a check starts to fail, fails for a new reason, or passes again. */
  readonly log?: Logger | undefined
  /** Names of checks whose failure alone makes the aggregate `fail`. */
  readonly critical?: readonly string[] | undefined
  readonly timeoutMs?: number
  /** Registered from the start, by name. */
  readonly checks?: Readonly<Record<string, Check>>
}

export function createHealth(options: HealthOptions = {}): Health {
  const { log, critical = [], timeoutMs = CHECK_TIMEOUT_MS } = options
  const checks = new Map<string, Check>(Object.entries(options.checks ?? {}))
  /** The messages, without numbers, of the checks since they fail. Those of an unresponsive dependency alternate. */
  const failing = new Map<string, Set<string>>()
  let isDraining = false
  const logChange = (name: string, outcome: Outcome) => {
    const known = failing.get(name) ?? new Set()
    if (outcome.isFailed) {
      const reason = fullText(outcome.error)
      const kind = reason.replace(/\d+/g, '#') // how long it has failed is another number at each probe
      if (known.has(kind)) return
      failing.set(name, known.add(kind))
      log?.warn({ err: outcome.error, check: name, reason }, 'a health check fails')
    } else if (failing.delete(name)) log?.info({ check: name }, 'a health check passes again')
  }
  return {
    register: (name, check) => void checks.set(name, check),
    async report({ detailed = false } = {}) {
      const results = await Promise.all(
        [...checks].map(async ([name, check]): Promise<[string, CheckResult]> => {
          const outcome = await run(check, timeoutMs)
          logChange(name, outcome)
          return [name, resultOf(outcome, detailed)]
        }),
      )
      if (isDraining) results.push(['drain', STOPPING])
      return { status: isDraining ? 'fail' : aggregate(results, critical), checks: Object.fromEntries(results) }
    },
    startDrain() {
      isDraining = true
    },
  }
}

const STOPPING: CheckResult = { status: 'fail', durationMs: 0, message: 'the process is stopping' }

function aggregate(results: readonly (readonly [string, CheckResult])[], critical: readonly string[]) {
  const failed = results.filter(([, { status }]) => status === 'fail')
  if (failed.length === 0) return 'ok'
  if (failed.length === results.length || failed.some(([name]) => critical.includes(name))) return 'fail'
  return 'degraded'
}

type Outcome = { readonly durationMs: number } & (
  | { readonly isFailed: false; readonly message: string | undefined }
  | { readonly isFailed: true; readonly error: unknown }
)

async function run(check: Check, timeoutMs: number): Promise<Outcome> {
  const started = performance.now()
  const durationMs = () => Math.round((performance.now() - started) * 10) / 10
  const timeout = () => new CheckFailure(`timeout after ${timeoutMs} ms`)
  try {
    const returned = await withTimeout(Promise.resolve().then(check), timeoutMs, timeout)
    const { status, message } =
      typeof returned === 'object' ? returned : { status: 'pass', message: returned || undefined }
    if (status === 'pass') return { isFailed: false, durationMs: durationMs(), message }
    return { isFailed: true, durationMs: durationMs(), error: new CheckFailure(message ?? 'unavailable') }
  } catch (error) {
    return { isFailed: true, durationMs: durationMs(), error }
  }
}

function resultOf(outcome: Outcome, detailed: boolean): CheckResult {
  const { durationMs } = outcome
  if (outcome.isFailed) {
    const { error } = outcome
    return { status: 'fail', durationMs, message: detailed ? fullText(error) : formatHealthError(error) }
  }
  const { message } = outcome
  return { status: 'pass', durationMs, ...(message === undefined ? {} : { message }) }
}

const WORDS = new Map(
  Object.entries({
    ECONNREFUSED: 'connection refused',
    ECONNRESET: 'connection reset',
    ETIMEDOUT: 'connection timed out',
    ENOTFOUND: 'host not found',
    EAI_AGAIN: 'host not found',
    '28P01': 'authentication failed',
    '28000': 'authentication failed',
    '3D000': 'database does not exist',
    '53300': 'too many connections',
    '57P01': 'server is shutting down',
    '57P03': 'server is starting up',
    ...WRITE_FAILURES,
  }),
)

/** What drivers report without a code. */
const MESSAGES: readonly (readonly [RegExp, string])[] = [
  [/^(Connection terminated|Connection is closed)/, 'connection reset'],
  [/^(timeout exceeded when trying to connect|timeout expired|Query read timeout)/, 'timeout'],
]

/** An error, or the cause of it that has words, in words that name no host, tenant or credential. */
export function formatHealthError(error: unknown): string {
  if (error instanceof CheckFailure) return error.message
  if (error instanceof AggregateError) return formatHealthError(error.errors[0])
  if (!(error instanceof Error)) return 'unavailable'
  const { code = '' } = error as { code?: string }
  const words = WORDS.get(code) ?? MESSAGES.find(([message]) => message.test(error.message))?.[1]
  return words ?? formatHealthError(error.cause)
}

function fullText(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(fullText).join('; ')
  return error instanceof Error ? error.message || error.name : String(error)
}
