/**
 * Runs the doctor hourly in one worker, and publishes the number of findings in the store. All processes expose the published numbers.
 */
import { z } from 'zod'
import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import { type Attempt, jobType } from '../jobs/jobs.ts'
import { cachedGauges } from '../metrics/cached-gauges.ts'
import type { Series } from '../metrics/metrics.ts'
import { type AttentionRequest, type AttentionResult, NO_ATTENTION } from '../shares/contributions.ts'
import type { Store } from '../store/store.ts'
import { Doctor, SEVERITIES } from './doctor.ts'

const KEY = 'doctor'
/** An outage of seconds must not be an alert for an hour. */
const INCOMPLETE = ['doctor.not-examined', 'doctor.timed-out']

const Published = z.object({
  examinedAt: z.coerce.date(),
  findings: z.record(z.enum(SEVERITIES), z.int()),
})

export const ExamineInstallation = jobType({
  name: 'ExamineInstallation',
  summary: 'Runs the doctor, and publishes the number of its findings for metrics',
  data: z.object({}),
  workers: 1,
})

interface Dependencies {
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
}

export class Examinations {
  readonly doctor: Doctor
  readonly #dependencies: Dependencies

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies
    this.doctor = new Doctor(dependencies.log)
  }

  async run({ signal, isLast }: Pick<Attempt, 'signal' | 'isLast'>): Promise<void> {
    const { checks, counts } = await this.doctor.examine({ signal })
    const incomplete = checks.find(({ code }) => code !== undefined && INCOMPLETE.includes(code))
    if (incomplete && !isLast) throw new Error(`the examination is incomplete: ${incomplete.message}`)
    const { store, clock } = this.#dependencies
    const published = { examinedAt: clock.now(), findings: counts }
    await store.set(null, KEY, JSON.stringify(published)) // without an expiry, so that its age is exposed until the next one
  }

  /** The errors of the last examination. */
  async attention({ tenantId }: AttentionRequest): Promise<AttentionResult> {
    const { examinedAt: since, findings } = (tenantId === undefined && (await this.latest())) || {}
    const count = findings?.error ?? 0
    if (since === undefined || count === 0) return NO_ATTENTION
    const title = 'Errors in the last examination by the doctor'
    return { entries: [{ tenantId: null, title, since, count, operation: 'doctor.get', params: {} }], total: 1 }
  }

  /** Null before the first examination. */
  async latest(): Promise<z.output<typeof Published> | null> {
    const published = await this.#dependencies.store.get(null, KEY)
    return published === null ? null : Published.parse(JSON.parse(published))
  }
}

export const examinationSeries = (examinations: Examinations): Series[] =>
  cachedGauges(
    () => examinations.latest(),
    [
      {
        name: 'multitenancy_doctor_findings',
        help: 'Findings of the hourly examination by the doctor, by severity',
        samples: (latest) =>
          latest ? SEVERITIES.map((severity) => ({ labels: { severity }, value: latest.findings[severity] })) : [],
      },
      {
        name: 'multitenancy_doctor_age_seconds',
        help: 'Time since the last examination by the doctor',
        samples: (latest) =>
          latest ? [{ value: Math.max(0, (Date.now() - latest.examinedAt.getTime()) / 1_000) }] : [],
      },
    ],
    { everyMs: 10_000 },
  )
