/** Types of the jobs of migration runs. */
import { z } from 'zod'
import { jobType } from '../../kernel/jobs/jobs.ts'

export const WorkMigrationRun = jobType({
  name: 'WorkMigrationRun',
  summary: 'Migrates the storages of a migration run',
  data: z.object({ runId: z.string() }),
  retries: 5,
  timeoutSeconds: 6 * 3_600,
  workers: 1,
})

export const RecoverMigrationRuns = jobType({
  name: 'RecoverMigrationRuns',
  summary: 'Continues migration runs whose worker was killed, and ends cancelled ones',
  data: z.object({}),
  workers: 1,
})
