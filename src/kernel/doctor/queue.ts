/** Diagnoses jobs: queues without a worker, dead letters, and jobs that no schedule sends. */

import type { Backlog, Jobs, QueueState } from '../jobs/jobs.ts'
import type { Diagnosis, Finding } from './doctor.ts'

const LATE_MS = 10 * 60_000
/** So long a dead letter is news. */
const NEWS_MS = 24 * 3_600_000

export const queueDiagnosis: Diagnosis<{ readonly jobs: Jobs }> = {
  name: 'queue',
  summary: 'Jobs that nobody works on, and jobs that were given up',
  async *examine({ jobs }) {
    yield* queueFindings(await jobs.state(LATE_MS), new Date())
  },
  async fix({ jobs }) {
    const queues = await jobs.scheduleMissing()
    return queues.length > 0 ? `scheduled ${queues.join(', ')}` : 'nothing was missing any more'
  },
}

export function* queueFindings(
  { waiting, isWorking, silent, deadLetters, unscheduled }: QueueState,
  now: Date,
): Iterable<Finding> {
  const [first] = waiting
  if (first && !isWorking) yield nobodyWorks(waiting)
  else for (const backlog of waiting) yield late(backlog)
  for (const { queue, count, since } of silent) {
    yield {
      severity: 'warn',
      code: 'queue.heartbeat-lost',
      message: `${jobs(count, queue)} counted as being worked on, by a worker that was last heard of ${since.toISOString()}`,
      remedy:
        'Any process that runs, whatever its role, has such jobs tried again within seconds. See whether one does, and what its log says.',
    }
  }
  for (const { queue, count, since, last, isOrphaned } of deadLetters) {
    const between = `between ${since.toISOString()} and ${last.toISOString()}`
    yield {
      severity: now.getTime() - last.getTime() < NEWS_MS ? 'warn' : 'info',
      code: 'queue.dead-letters',
      message: isOrphaned
        ? `${jobs(count, queue, 'was', 'were')} moved to the dead letters ${between}: nobody knows ${count === 1 ? 'its' : 'their'} queue any more`
        : `${jobs(count, queue, 'was', 'were')} given up after the last attempt, ${between}`,
      remedy: (isOrphaned ? ORPHANED : FAILED_PERMANENTLY) + KEPT,
    }
  }
  if (unscheduled.length > 0) {
    yield {
      severity: 'warn',
      code: 'queue.unscheduled',
      message: `the clock sends no jobs to ${unscheduled.join(', ')}: they are missing from the schedule`,
      remedy:
        'tenantry doctor --fix schedules them. Processes with the role all or worker do so as well, at their start and hourly: see ' +
        'whether one of an older release runs beside them, which takes away what it does not know.',
      fixable: true,
    }
  }
}

const FAILED_PERMANENTLY =
  "The workers' logs say why (a job failed), and the other findings what it has left undone. Put that right, then ask for it again: " +
  'what recurs is made up for by its next run.'
const ORPHANED =
  'For a week no process had the satellite or the release that works on them. If what they were for is still wanted, bring that back ' +
  'and ask for it again.'
const KEPT =
  ' None is sent again by itself; each is kept for a year, and a day after the last one this is for information only.'

const nobodyWorks = (waiting: readonly Backlog[]): Finding => ({
  severity: 'error',
  code: 'queue.stuck',
  message:
    `${jobs(waiting.reduce((sum, { count }) => sum + count, 0))} due since ` +
    `${new Date(Math.min(...waiting.map(({ since }) => since.getTime()))).toISOString()}, and nobody works on any job`,
  remedy:
    'Start a process with the role all or worker, or see what the log of the one that runs says. Nothing is lost.',
})

const late = ({ queue, count, since, isWorkedOn }: QueueState['waiting'][number]): Finding =>
  isWorkedOn
    ? {
        severity: 'info',
        code: 'queue.behind',
        message: `${jobs(count, queue)} due since ${since.toISOString()}; others of that queue are being worked on`,
        remedy:
          'tenantry tenant:queue:stats shows whose they are: of one tenant two are worked on at a time. If they grow more, add processes ' +
          'with the role worker.',
      }
    : {
        severity: 'warn',
        code: 'queue.not-taken',
        message: `${jobs(count, queue)} due since ${since.toISOString()}, and nobody takes any, though other queues are worked on`,
        remedy:
          'See whether every process with the role all or worker runs the same release and the same satellites, and what its log says. What ' +
          'no process has known for a week goes to the dead letters.',
      }

function jobs(count: number, queue?: string, one = 'is', many = 'are'): string {
  const of = queue === undefined ? '' : ` of ${queue}`
  return count === 1 ? `1 job${of} ${one}` : `${count} jobs${of} ${many}`
}
