/** Diagnoses jobs: queues without a worker, dead letters, and jobs that no schedule sends. */

import type { Backlog, Jobs, QueueState } from '../jobs/jobs.ts'
import type { Diagnosis, Finding } from './doctor.ts'

const LATE_MS = 10 * 60_000

export const queueDiagnosis: Diagnosis<{ readonly jobs: Jobs }> = {
  name: 'queue',
  summary: 'Jobs without a worker, and dead letters',
  async *examine({ jobs }) {
    yield* queueFindings(await jobs.state(LATE_MS))
  },
  async fix({ jobs }) {
    const queues = await jobs.scheduleMissing()
    return queues.length > 0 ? `scheduled ${queues.join(', ')}` : 'all schedules exist'
  },
}

function* queueFindings({ waiting, isWorking, silent, deadLetters, unscheduled }: QueueState): Iterable<Finding> {
  const [first] = waiting
  if (first && !isWorking) yield nobodyWorks(waiting)
  else for (const backlog of waiting) yield late(backlog)
  for (const { queue, count, since } of silent) {
    yield {
      severity: 'warn',
      code: 'queue.heartbeat-lost',
      message: `${jobs(count, queue)} counted as active, by a worker without a heartbeat since ${since.toISOString()}`,
      remedy: 'Any running process retries such jobs within seconds. Check that one runs, and see its log.',
    }
  }
  for (const { queue, count, recent, since, last, isOrphaned } of deadLetters) {
    const between = `between ${since.toISOString()} and ${last.toISOString()}`
    yield {
      severity: recent > 0 ? 'warn' : 'info',
      code: 'queue.dead-letters',
      message: isOrphaned
        ? `${jobs(count, queue, 'was', 'were')} moved to the dead letters ${between}: no process knows ${count === 1 ? 'its' : 'their'} queue`
        : `${jobs(count, queue, 'has', 'have')} failed permanently after the last attempt, ${between}`,
      remedy: (isOrphaned ? ORPHANED : FAILED_PERMANENTLY) + KEPT,
    }
  }
  if (unscheduled.length > 0) {
    yield {
      severity: 'warn',
      code: 'queue.unscheduled',
      message: `no schedule exists for the jobs ${unscheduled.join(', ')}`,
      remedy:
        'Run tenantry doctor --fix. Processes with the role all or worker also create schedules, at their start and hourly: check ' +
        'whether a process of an older release runs, which removes unknown schedules.',
      fixable: true,
    }
  }
}

const FAILED_PERMANENTLY =
  "The workers' logs have the reason (a job failed), and the other findings its consequences. Fix that, then run " +
  'tenantry dead-letter:retry with an id of tenantry dead-letter:list. Recurring work is repeated by its next run.'
const ORPHANED =
  'For a week no process had the satellite or the release with its handler. If the work is still needed, restore the handler ' +
  'and run tenantry dead-letter:retry, otherwise tenantry dead-letter:delete, with an id of tenantry dead-letter:list.'
const KEPT = ' None is retried automatically; each is kept for a year, and reported as an info after a day.'

const nobodyWorks = (waiting: readonly Backlog[]): Finding => ({
  severity: 'error',
  code: 'queue.stuck',
  message:
    `${jobs(waiting.reduce((sum, { count }) => sum + count, 0))} due since ` +
    `${new Date(Math.min(...waiting.map(({ since }) => since.getTime()))).toISOString()}, and no worker runs`,
  remedy: 'Start a process with the role all or worker, or see the log of the running one. Nothing is lost.',
})

const late = ({ queue, count, since, isWorkedOn }: QueueState['waiting'][number]): Finding =>
  isWorkedOn
    ? {
        severity: 'info',
        code: 'queue.behind',
        message: `${jobs(count, queue)} due since ${since.toISOString()}; others of that queue are active`,
        remedy:
          'tenantry tenant:queue:stats shows their tenants: two jobs of a tenant run concurrently. If the number grows, add processes ' +
          'with the role worker.',
      }
    : {
        severity: 'warn',
        code: 'queue.not-taken',
        message: `${jobs(count, queue)} due since ${since.toISOString()}, and no worker takes them, although other queues have workers`,
        remedy:
          'Check whether all processes with the role all or worker have the same release and satellites, and see their logs. Jobs that ' +
          'no process has known for a week become dead letters.',
      }

function jobs(count: number, queue?: string, one = 'is', many = 'are'): string {
  const of = queue === undefined ? '' : ` of ${queue}`
  return count === 1 ? `1 job${of} ${one}` : `${count} jobs${of} ${many}`
}
