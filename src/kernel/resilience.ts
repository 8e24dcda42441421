/** What happens when something this depends on is away is decided in advance; whenever such a decision takes effect, this says so. */
import { z } from 'zod'
import { event } from './events.ts'

export const DependencyDegraded = event(
  'DependencyDegraded',
  'A dependency failed and a policy decided in its place',
  z.object({
    dependency: z.string(),
    operation: z.string(),
    tenantId: z.string().nullable(),
    policy: z.enum(['fail-open', 'fail-closed']),
    errorCode: z.string(),
  }),
)
