/** Operations that belong to no part: the service speaking of itself. */
import { z } from 'zod'
import { operation, Reply } from '../kernel/operation.ts'
import type { Core } from '../tenancy.ts'
import { VERSION } from '../version.ts'

const Health = z
  .object({
    status: z.enum(['ok', 'degraded', 'fail']),
    version: z.string(),
    uptimeSeconds: z.number(),
    checks: z.record(
      z.string(),
      z.object({ status: z.enum(['pass', 'fail']), durationMs: z.number(), message: z.string().optional() }),
    ),
  })
  .meta({ id: 'Health' })

export const systemOperations = [
  operation({
    name: 'health.get',
    method: 'GET',
    path: '/health',
    summary: 'Health of the service, with full messages',
    reply: Health,
    alsoStatus: [503],
    handle: async ({ health }: Core) => {
      const { status, checks } = await health.report({ detailed: true })
      return new Reply(status === 'fail' ? 503 : 200, {
        status,
        version: VERSION,
        uptimeSeconds: process.uptime(),
        checks: { ...checks },
      })
    },
  }),
]
