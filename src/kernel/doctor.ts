/**
 * The doctor: what is wrong with an installation, and what to do about it. A part brings its diagnoses as data; each examines one
 * subject and tells what it finds.
 *
 *   error   something is refused, lost or open that must not be: it needs somebody now
 *   warn    it works, and will not stay so, or concerns one tenant alone
 *   info    worth knowing; nothing has to be done
 *
 * Silence means that everything was looked at. A diagnosis that fails or takes too long is an error itself, beside what it had
 * found until then; the others are not kept waiting for longer than its time.
 */
import { defineError, TenancyError } from './errors.ts'
import { plainWords } from './health.ts'
import type { Logger } from './logger.ts'

const TIMEOUT_MS = 15_000
/** Of one kind, so many are told one by one; of the others, how many they are. */
const TOLD_EACH = 50

/** What a command that checks something throws after it has printed what it found. */
export const FindingsStand = defineError('E_FINDINGS', 409, 'There are findings')

export const SEVERITIES = ['error', 'warn', 'info'] as const
export type Severity = (typeof SEVERITIES)[number]

export interface Finding {
  readonly severity: Severity
  /** Stable, of the form `isolation.table-without-policy`. */
  readonly code: string
  /** What is wrong, naming the object. */
  readonly message: string
  /** What to do about it. */
  readonly remedy: string
  /** Whether it can be put right without harm, by itself; default false. */
  readonly fixable?: boolean
  readonly tenantId?: string
}

export interface Examination {
  /** Whether what usually holds by construction is to be proven as well, which takes longer. */
  readonly prove: boolean
  /** Aborts when the time is up, or when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  readonly log: Logger
}

export interface Diagnosis<Service = any> {
  /** `tenants.storage` */
  readonly name: string
  readonly summary: string
  /** Default 15,000; a proof may take longer than the rest. */
  readonly timeoutMs?: number
  readonly examine: (service: Service, examination: Examination) => AsyncIterable<Finding> | Iterable<Finding>
}

export interface ReportedFinding extends Finding {
  /** Of the diagnosis. */
  readonly name: string
  readonly fixable: boolean
}

export interface DoctorReport {
  /** The worst that was found; `ok` when that is an info, or nothing. */
  readonly status: 'ok' | 'warn' | 'error'
  /** The worst first. */
  readonly checks: readonly ReportedFinding[]
}

export class Doctor {
  readonly #log: Logger
  readonly #diagnoses: { readonly diagnosis: Diagnosis; readonly service: unknown }[] = []

  constructor(log: Logger) {
    this.#log = log
  }

  register<Service>(diagnosis: Diagnosis<Service>, service: Service): void {
    this.#diagnoses.push({ diagnosis, service })
  }

  /** All diagnoses at once. Throws nothing but the reason of `signal`. */
  async examine({ prove = false, signal }: Partial<Pick<Examination, 'prove' | 'signal'>> = {}): Promise<DoctorReport> {
    const all = await Promise.all(
      this.#diagnoses.map(({ diagnosis, service }) => this.#carryOut(diagnosis, service, prove, signal)),
    )
    signal?.throwIfAborted()
    const checks = all.flat().sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity))
    const worst = checks[0]?.severity ?? 'info'
    return { status: worst === 'info' ? 'ok' : worst, checks }
  }

  async #carryOut(
    diagnosis: Diagnosis,
    service: unknown,
    prove: boolean,
    signal: AbortSignal | undefined,
  ): Promise<ReportedFinding[]> {
    const { name, timeoutMs = TIMEOUT_MS } = diagnosis
    const time = new AbortController()
    const timer = setTimeout(() => time.abort(new TimeIsUp()), timeoutMs)
    const limit = signal ? AbortSignal.any([signal, time.signal]) : time.signal
    const findings: Finding[] = []
    try {
      const examination = { prove, signal: limit, log: this.#log }
      for await (const finding of untilAborted(() => diagnosis.examine(service, examination), limit)) {
        findings.push(finding)
      }
    } catch (error) {
      if (error instanceof TimeIsUp) findings.push(tookTooLong(name, timeoutMs))
      else if (!signal?.aborted) findings.push(notExamined(`"${name}"`, error, this.#log))
    } finally {
      clearTimeout(timer)
    }
    return told(findings).map((finding) => ({ fixable: false, ...finding, name }))
  }
}

/** That something could not be looked at, for whoever goes on with the rest. The error's own words go into the log. */
export function notExamined(what: string, error: unknown, log: Logger): Finding {
  log.warn({ err: error, what }, 'something could not be examined')
  return {
    severity: 'error',
    code: 'doctor.not-examined',
    message: `${what} could not be examined: ${error instanceof TenancyError ? error.message : plainWords(error)}`,
    remedy: 'Nothing is known of it until this is put right; the log has the full text.',
  }
}

class TimeIsUp extends Error {}

const tookTooLong = (name: string, timeoutMs: number): Finding => ({
  severity: 'error',
  code: 'doctor.timed-out',
  message: `"${name}" was not examined within ${timeoutMs} ms; what it had found until then is told`,
  remedy: 'See whether its database answers slowly, and ask again.',
})

/** Leaves a source that does not come to its end; what that still does is nobody's business any more. */
async function* untilAborted(
  open: () => AsyncIterable<Finding> | Iterable<Finding>,
  signal: AbortSignal,
): AsyncGenerator<Finding> {
  signal.throwIfAborted()
  const source = opened(open)
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  aborted.catch(() => undefined) // it may come while nobody is waiting
  try {
    for (;;) {
      const next = await Promise.race([source.next(), aborted])
      if (next.done) return
      yield next.value
    }
  } finally {
    source.return(undefined).catch(() => undefined)
  }
}

async function* opened(open: () => AsyncIterable<Finding> | Iterable<Finding>): AsyncGenerator<Finding, undefined> {
  yield* open()
  return undefined
}

function told(findings: readonly Finding[]): Finding[] {
  return [...Map.groupBy(findings, ({ code, severity }) => `${severity} ${code}`).values()].flatMap((alike) => {
    const [first] = alike
    const more = alike.length - TOLD_EACH
    if (!first || more <= 0) return alike
    const { severity, code, remedy } = first
    return [...alike.slice(0, TOLD_EACH), { severity, code, remedy, message: `and ${more} more of this kind` }]
  })
}
