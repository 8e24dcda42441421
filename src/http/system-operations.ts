/** Operations that belong to no part: the service speaking of itself. */
import { z } from 'zod'
import { operation, Reply } from '../kernel/api/operation.ts'
import { SEVERITIES } from '../kernel/doctor/doctor.ts'
import type { Core } from '../tenancy/tenancy.ts'
import { VERSION } from '../tenancy/version.ts'

export const Health = z
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

export const Doctor = z
  .object({
    status: z.enum(['ok', 'warn', 'error']),
    checks: z
      .array(
        z.object({
          name: z.string().meta({ description: 'Name of the diagnosis' }),
          severity: z.enum(SEVERITIES),
          code: z.string().meta({ description: 'Stable code of the form `storage.missing`' }),
          message: z.string(),
          remedy: z.string(),
          fixable: z.boolean().meta({ description: 'Whether `doctor --fix` can fix it' }),
          tenantId: z.string().optional(),
        }),
      )
      .meta({ description: 'Findings, the most severe first; an empty list if there are none' }),
    counts: z
      .object({ error: z.int(), warn: z.int(), info: z.int() })
      .meta({ description: 'Number of all findings by severity; `checks` names at most 50 of a kind' }),
  })
  .meta({ id: 'Doctor' })

export const getDoctor = operation({
  name: 'doctor.get',
  method: 'GET',
  path: '/doctor',
  summary: 'Findings of the doctor about the installation, each with a remedy',
  description:
    'Returns 503 while there is a finding of severity `error`. The isolation proof takes longer and is a command: `tenantry doctor --prove`.',
  reply: Doctor,
  extraSeconds: 120, // each diagnosis has a time limit, and a few run concurrently
  alsoStatus: [503],
  handle: async ({ doctor }: Core, { signal }) => {
    const { status, checks, counts } = await doctor.examine({ signal })
    return new Reply(status === 'error' ? 503 : 200, { status, checks: [...checks], counts })
  },
})

export const getHealth = operation({
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
})

export const systemOperations = [getHealth, getDoctor]
