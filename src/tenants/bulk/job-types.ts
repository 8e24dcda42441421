/** Types of the jobs of bulk jobs. */
import { z } from 'zod'
import { jobType } from '../../kernel/jobs/jobs.ts'

export const RunBulk = jobType({
  name: 'RunBulk',
  summary: 'Carries out one operation for the tenants of a bulk job',
  data: z.object({ bulkId: z.string() }),
  retries: 5,
  timeoutSeconds: 6 * 3_600,
})

export const RecoverBulk = jobType({
  name: 'RecoverBulk',
  summary:
    'Continues bulk jobs whose worker was killed, and deletes those that ended 90 days ago, dry runs after one day',
  data: z.object({}),
  workers: 1,
})
