/** Operations that belong to no part: health, findings of the doctor, and the session of the request. */
import { z } from 'zod'
import { type AnyOperation, operation, Reply } from '../kernel/api/operation.ts'
import { mayCall } from '../kernel/api/permissions.ts'
import { currentContext } from '../kernel/base/context.ts'
import { type Doctor as DoctorService, SEVERITIES } from '../kernel/doctor/doctor.ts'
import type { Health as HealthService } from '../kernel/resilience/health.ts'
import { VERSION } from './version.ts'

/** The service of these operations. */
export interface System {
  readonly health: HealthService
  readonly doctor: DoctorService
  /** All operations of the API. */
  readonly operations: readonly AnyOperation[]
  /** Names of the enabled satellites. */
  readonly satellites: readonly string[]
}

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
  handle: async ({ doctor }: System, { signal }) => {
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
  handle: async ({ health }: System) => {
    const { status, checks } = await health.report({ detailed: true })
    return new Reply(status === 'fail' ? 503 : 200, {
      status,
      version: VERSION,
      uptimeSeconds: process.uptime(),
      checks: { ...checks },
    })
  },
})

export const Session = z
  .object({
    name: z.string().meta({ description: 'Name of the token, or of the identity of the host' }),
    may: z.array(z.string()).meta({ description: 'Patterns of operations' }),
    tenants: z.array(z.string()).nullable().meta({ description: 'Null if there is no tenant limit' }),
    expiresAt: z.iso.datetime().nullable().meta({ description: 'End of the session or token; null if there is none' }),
    version: z.string().meta({ description: 'Version of Tenantry' }),
    satellites: z.array(z.string()).meta({ description: 'Names of the enabled satellites' }),
    operations: z
      .record(z.string(), z.string())
      .meta({ description: 'Permitted operations, with method and path: `"plans.list": "GET /plans"`' }),
  })
  .meta({ id: 'Session' })

export const getSession = operation({
  name: 'session.get',
  method: 'GET',
  path: '/session',
  summary: 'Show the name, permissions and end of the token or session of the request',
  reply: Session,
  scope: 'any',
  handle: async ({ operations, satellites }: System) => {
    const { actor, grant } = currentContext()
    if (!grant) throw new Error('session.get is called without a token')
    const permitted = operations.filter((one) => mayCall(grant, one))
    const { bounds, tenants, expiresAt, session } = grant
    return {
      name: actor.name,
      may: [...bounds[0]],
      tenants: tenants && [...tenants],
      expiresAt: (session?.expiresAt ?? expiresAt)?.toISOString() ?? null,
      version: VERSION,
      satellites: [...satellites],
      operations: Object.fromEntries(permitted.map(({ name, method, path }) => [name, `${method} ${path}`])),
    }
  },
})

export const systemOperations = [getHealth, getDoctor, getSession]
