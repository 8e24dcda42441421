/** The kernel and its store as parts of a tenancy. */
import { IDEMPOTENCY_KEYS } from './api/idempotency.ts'
import { APPLICATION_KEY } from './database/application-key.ts'
import { assertWritable } from './database/write-probe.ts'
import { backofficeDiagnosis } from './doctor/backoffice.ts'
import { clocksDiagnosis } from './doctor/clocks.ts'
import { Examinations, ExamineInstallation, examinationSeries } from './doctor/examinations.ts'
import { queueDiagnosis } from './doctor/queue.ts'
import { storeDiagnosis } from './doctor/store.ts'
import type { ErasableSystem } from './erasable.ts'
import { recordedChanges } from './events/changes.ts'
import { jobSeries } from './jobs/job-metrics.ts'
import { handles } from './jobs/jobs.ts'
import { JOB_NAMES } from './jobs/queue-registry.ts'
import type { Kernel } from './kernel.ts'
import { processSeries } from './metrics/process-metrics.ts'
import type { Part } from './part-definition.ts'
import { PROCESSES } from './processes/processes.ts'
import { DependencyDegraded } from './resilience/resilience.ts'
import type { Store, StoreDriver } from './store/store.ts'

/** A job in progress is found until it has ended. */
const jobsOfTenant: ErasableSystem<Kernel> = {
  name: 'jobs',
  find: async ({ jobs }, { tenantId }) => [{ kind: 'jobs', count: await jobs.countOf(tenantId) }],
  remove: ({ jobs }, { tenantId }) => jobs.forget(tenantId),
  isAfterRows: true,
}

const keysOfTenant: ErasableSystem<Store> = {
  name: 'store',
  find: async (store, { tenantId }) => [{ kind: 'keys', count: await store.count(tenantId) }],
  remove: (store, { tenantId }) => store.purge(tenantId),
  tables: ['store_counters', 'store_gauges', 'store_sums'],
}

export const kernelPart: Part<'kernel', Kernel> = {
  name: 'kernel',
  tables: [
    { name: '0001_kernel', up: IDEMPOTENCY_KEYS + JOB_NAMES },
    { name: '0002_application_key', up: APPLICATION_KEY },
    { name: '0003_processes', up: PROCESSES },
  ],
  events: [DependencyDegraded],
  service: (kernel) => kernel,
  outbox: [recordedChanges],
  erase: { systems: [jobsOfTenant] },
  checks: { backoffice: ({ database }) => assertWritable(database) },
  doctor: [backofficeDiagnosis, queueDiagnosis, clocksDiagnosis],
  metrics: ({ jobs, labels, resilience }) => [...jobSeries(jobs, labels), ...processSeries(), ...resilience.series()],
  stop: ({ egress }) => egress.close(),
}

export const storePart = ({ tables = [] }: StoreDriver): Part<'store', Store> => ({
  name: 'store',
  tables,
  service: ({ store }) => store,
  erase: { systems: [keysOfTenant] },
  checks: { store: (store) => store.ping() },
  doctor: [storeDiagnosis],
  stop: (store) => store.close(),
})

/** Has the doctor of the tenancy, and runs it hourly. */
export const examinationsPart: Part<'examinations', Examinations> = {
  name: 'examinations',
  service: (kernel) => new Examinations(kernel),
  jobs: [handles(ExamineInstallation, (examinations: Examinations, _, attempt) => examinations.run(attempt))],
  schedule: [{ type: ExamineInstallation, cron: '11 * * * *' }],
  metrics: examinationSeries,
  attention: [
    { name: 'doctorErrors', severity: 'high', read: (examinations, request) => examinations.attention(request) },
  ],
}
