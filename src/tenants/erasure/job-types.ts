/** Types of the jobs of erasures. They have no tenant: the erasure removes the jobs of the tenant. */
import { z } from 'zod'
import { jobType } from '../../kernel/jobs/jobs.ts'

export const EraseTenant = jobType({
  name: 'EraseTenant',
  summary: 'Erases a tenant in all systems, searches them again, and signs the report',
  data: z.object({ tenantId: z.string() }),
  retries: 5,
  retryDelaySeconds: 10,
  timeoutSeconds: 6 * 3_600,
})

export const RecoverErasures = jobType({
  name: 'RecoverErasures',
  summary: 'Continues erasures that wait for an unavailable system, or whose worker was killed',
  data: z.object({}),
  workers: 1,
})
