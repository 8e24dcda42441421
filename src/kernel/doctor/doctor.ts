/**
 * Runs the diagnoses of all parts, reports findings, and fixes those that are fixable.
 *
 *   fix()   examine ─► approve ─► fix one after the other ─► examine
 *
 * - No finding means that everything was examined: a diagnosis that fails or exceeds its time is an error, in addition to its findings.
 * - Nothing is locked between examination and fix: each fix examines again, under its lock.
 */
import { forEachConcurrent } from '../base/concurrency.ts'
import { defineError, TenancyError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { formatHealthError } from '../resilience/health.ts'
import { FindingsByKind } from './findings.ts'

const TIMEOUT_MS = 15_000
/** Leaves connections of the backoffice to requests. */
const CONCURRENCY = 4

/** Thrown by a checking command after it has printed its findings. */
export const FindingsStand = defineError('E_FINDINGS', 409, 'Problems found')

export const SEVERITIES = ['error', 'warn', 'info'] as const
export type Severity = (typeof SEVERITIES)[number]

export interface Finding {
  readonly severity: Severity
  /** Stable, of the form `isolation.table-without-policy`. */
  readonly code: string
  /** The problem, with the name of the object. */
  readonly message: string
  /** What to do about it. */
  readonly remedy: string
  /** Whether its diagnosis can fix it safely. Default: false. */
  readonly fixable?: boolean
  readonly tenantId?: string
  /** Data for the fix. It is never reported. */
  readonly subject?: unknown
}

export interface Examination {
  /** Whether to prove properties that usually hold by construction, which takes longer. */
  readonly prove: boolean
  /** Whether findings may contain the texts of statements with their values; default false. */
  readonly showsSql?: boolean
  /** Aborts after the timeout, or when the caller no longer waits. */
  readonly signal: AbortSignal
  readonly log: Logger
}

export interface Diagnosis<Service = any> {
  /** `tenants.storage` */
  readonly name: string
  readonly summary: string
  /** Default: 15,000; a proof may take longer. */
  readonly timeoutMs?: number
  readonly examine: (service: Service, examination: Examination) => AsyncIterable<Finding> | Iterable<Finding>
  /**
   * Fixes one finding that is `fixable`, and returns what was done.
   *
   * Any process may have changed the subject since the examination, or may be fixing it. So it takes the lock of such changes and
   * examines again; if the finding no longer holds, it changes nothing and returns that. Idempotent, also after an interruption.
   */
  readonly fix?: (service: Service, finding: Finding, examination: Examination) => Promise<string>
}

export interface ReportedFinding extends Omit<Finding, 'subject'> {
  /** Of the diagnosis. */
  readonly name: string
  readonly fixable: boolean
}

/** Result of a fixable finding. */
export interface Fix extends Pick<ReportedFinding, 'name' | 'code' | 'message' | 'tenantId'> {
  readonly isDone: boolean
  /** The fix, or the reason of its failure. */
  readonly outcome: string
}

export interface DoctorReport {
  /** The worst severity; `ok` for infos only. */
  readonly status: 'ok' | 'warn' | 'error'
  /** The worst first; at most 50 of a kind, and one for the others. */
  readonly checks: readonly ReportedFinding[]
  /** Number of all findings by severity. */
  readonly counts: Readonly<Record<Severity, number>>
}

/** The findings after the fixes. */
export interface FixReport extends DoctorReport {
  readonly fixes: readonly Fix[]
}

/** Options of an examination. */
export interface ExamineOptions extends Partial<Omit<Examination, 'log'>> {
  /** Names of the diagnoses to run. Default: all. */
  readonly only?: readonly string[] | undefined
}

export interface FixOptions extends ExamineOptions {
  /** Called before the fixes if a finding is fixable; declined findings are not fixed. */
  readonly approve: (fixable: readonly ReportedFinding[]) => Promise<boolean>
  /** Called before each fix. */
  readonly onFix?: (finding: ReportedFinding) => void
}

interface Registered {
  readonly diagnosis: Diagnosis
  readonly service: unknown
}

interface Examined extends Registered {
  readonly findings: FindingsByKind<Finding>
  /** All fixable findings, or none if the examination is not for a fix. */
  readonly fixable: readonly Finding[]
}

export class Doctor {
  readonly #log: Logger
  readonly #diagnoses: Registered[] = []

  constructor(log: Logger) {
    this.#log = log
  }

  register<Service>(diagnosis: Diagnosis<Service>, service: Service): void {
    this.#diagnoses.push({ diagnosis, service })
  }

  /** The diagnoses in the order of their parts. */
  get diagnoses(): readonly Pick<Diagnosis, 'name' | 'summary'>[] {
    return this.#diagnoses.map(({ diagnosis: { name, summary } }) => ({ name, summary }))
  }

  /** Runs all diagnoses, a few concurrently. Throws only the reason of `signal`. */
  async examine(options: ExamineOptions = {}): Promise<DoctorReport> {
    return reportOf(await this.#examined(options, false))
  }

  /**
   * Fixes all fixable findings and examines again. A failed fix is reported, and the others continue. Throws only the reason of
   * `signal` and errors of `approve`.
   */
  async fix({ approve, onFix, ...options }: FixOptions): Promise<FixReport> {
    const examined = await this.#examined(options, true)
    const fixable = examined.flatMap(({ fixable, diagnosis, service }) =>
      fixable.map((finding) => ({ finding, diagnosis, service })),
    )
    const reported = fixable.map(({ finding, diagnosis }) => toReported(finding, diagnosis))
    if (fixable.length === 0 || !(await approve(reported))) return { ...reportOf(examined), fixes: [] }
    const fixes: Fix[] = []
    for (const { finding, diagnosis, service } of fixable) {
      options.signal?.throwIfAborted()
      onFix?.(toReported(finding, diagnosis))
      fixes.push(await this.#fixed(finding, diagnosis, service, options))
    }
    return { ...(await this.examine(options)), fixes }
  }

  async #examined(options: ExamineOptions, isForFix: boolean): Promise<Examined[]> {
    const { only } = options
    const chosen = this.#diagnoses.filter(({ diagnosis }) => only?.includes(diagnosis.name) ?? true)
    const examined: Examined[] = []
    const carryOut = async (one: Registered, index: number) => {
      examined[index] = await this.#carryOut(one, options, isForFix)
    }
    await forEachConcurrent(chosen, CONCURRENCY, carryOut, options.signal)
    options.signal?.throwIfAborted()
    return examined
  }

  async #carryOut(
    { diagnosis, service }: Registered,
    { prove = false, showsSql = false, signal }: ExamineOptions,
    isForFix: boolean,
  ): Promise<Examined> {
    const { name, timeoutMs = TIMEOUT_MS } = diagnosis
    const time = new AbortController()
    const timer = setTimeout(() => time.abort(new TimeIsUp()), timeoutMs)
    const limit = signal ? AbortSignal.any([signal, time.signal]) : time.signal
    const findings = new FindingsByKind<Finding>()
    const fixable: Finding[] = []
    try {
      const examination = { prove, showsSql, signal: limit, log: this.#log }
      for await (const finding of untilAborted(() => diagnosis.examine(service, examination), limit)) {
        findings.add(finding)
        if (isForFix && isFixable(finding, diagnosis)) fixable.push(finding)
      }
    } catch (error) {
      if (error instanceof TimeIsUp) findings.add(tookTooLong(name, timeoutMs))
      else if (!signal?.aborted) findings.add(notExamined(`"${name}"`, error, this.#log))
    } finally {
      clearTimeout(timer)
    }
    return { diagnosis, service, findings, fixable }
  }

  async #fixed(
    finding: Finding,
    diagnosis: Diagnosis,
    service: unknown,
    { prove = false, signal = NEVER }: Omit<FixOptions, 'approve'>,
  ): Promise<Fix> {
    const { name, code, message, tenantId } = toReported(finding, diagnosis)
    const what = { name, code, message, ...(tenantId === undefined ? {} : { tenantId }) }
    try {
      const outcome = await diagnosis.fix?.(service, finding, { prove, signal, log: this.#log })
      this.#log.info({ ...what, outcome }, 'a finding was fixed')
      return { ...what, isDone: true, outcome: outcome ?? '' }
    } catch (error) {
      signal.throwIfAborted()
      this.#log.warn({ err: error, ...what }, 'a finding could not be fixed')
      return { ...what, isDone: false, outcome: errorMessageOf(error) }
    }
  }
}

const NEVER = new AbortController().signal

const isFixable = (finding: Finding, { fix }: Diagnosis): boolean => finding.fixable === true && fix !== undefined

function toReported(finding: Finding, diagnosis: Diagnosis): ReportedFinding {
  const { subject: _, ...rest } = finding
  return { ...rest, name: diagnosis.name, fixable: isFixable(finding, diagnosis) }
}

function reportOf(examined: readonly Examined[]): DoctorReport {
  const checks = examined
    .flatMap(({ findings, diagnosis }) => findings.reported(othersOf).map((finding) => toReported(finding, diagnosis)))
    .sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity))
  const worst = checks[0]?.severity ?? 'info'
  const countOf = (severity: Severity) => examined.reduce((sum, { findings }) => sum + findings.count(severity), 0)
  const counts = { error: countOf('error'), warn: countOf('warn'), info: countOf('info') }
  return { status: worst === 'info' ? 'ok' : worst, checks, counts }
}

const othersOf = ({ severity, code, remedy }: Finding, count: number): Finding => ({
  severity,
  code,
  remedy,
  message: `and ${count} more of this kind`,
})

const errorMessageOf = (error: unknown): string =>
  error instanceof TenancyError ? error.message : formatHealthError(error)

/** The finding that a subject was not examined, for a diagnosis that continues. The log contains the error. */
export function notExamined(what: string, error: unknown, log: Logger): Finding {
  log.warn({ err: error, what }, 'a subject could not be examined')
  return {
    severity: 'error',
    code: 'doctor.not-examined',
    message: `${what} could not be examined: ${errorMessageOf(error)}`,
    remedy: 'Its state is unknown until this is fixed; the log has the full error.',
  }
}

class TimeIsUp extends Error {}

const tookTooLong = (name: string, timeoutMs: number): Finding => ({
  severity: 'error',
  code: 'doctor.timed-out',
  message: `"${name}" exceeded its time limit of ${timeoutMs} ms; its findings are incomplete`,
  remedy: 'Check the response time of its database, and run the doctor again.',
})

/** Closes a source early; its later result is ignored. */
async function* untilAborted(
  open: () => AsyncIterable<Finding> | Iterable<Finding>,
  signal: AbortSignal,
): AsyncGenerator<Finding> {
  signal.throwIfAborted()
  const source = opened(open)
  try {
    for (;;) {
      const next = await orAborted(source.next(), signal)
      if (next.done) return
      yield next.value
    }
  } finally {
    source.return(undefined).catch(() => undefined)
  }
}

/** `Promise.race` with one promise of the abort would keep every result in memory. */
const orAborted = <Result>(result: Promise<Result>, signal: AbortSignal): Promise<Result> =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })

async function* opened(open: () => AsyncIterable<Finding> | Iterable<Finding>): AsyncGenerator<Finding, undefined> {
  yield* open()
  return undefined
}
