/** The part of the configuration that says where tenants live; isolation-drivers.ts makes the drivers from it. */
import { z } from 'zod'
import { SETTING_NAME, settingFaults } from '../drivers/isolation/scope/session-settings.ts'
import { PUBLIC_RIGHTS } from '../tenants/isolation/driver.ts'

export const PostgresUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\/.+/, 'not a URL like postgres://user:password@host:5432/database')

const atLeast = (least: number) => z.number().int().min(least)

const Scope = z
  .enum(['batch', 'transaction'])
  .optional()
  .describe('`batch` (default): the scope goes with each statement; `transaction`: BEGIN and COMMIT around it')
const driver = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape).optional()

const Drivers = z.strictObject({
  'schema-pg': driver({
    scope: Scope,
    names: z
      .enum(['path', 'qualified'])
      .optional()
      .describe('`path` (default): table names are found by the search path; `qualified`: Kysely writes the schema'),
  }).describe('A schema for each tenant'),
  'rowscope-pg': driver({ scope: Scope }).describe('Shared tables under row level security'),
  'database-pg': driver({
    scope: Scope,
    template: z.string().min(1).max(63).optional().describe('What databases are copied from; default `template0`'),
  }).describe('A database for each tenant'),
  'sqlite-memory': driver({}).describe('In memory, for tests and development; on when it is named here'),
})
const NAMES = Object.keys(Drivers.shape) as (keyof typeof Drivers.shape)[]

export const Isolation = z.strictObject({
  default: z
    .enum(NAMES, `not one of ${NAMES.join(', ')}`)
    .optional()
    .describe('The driver of a tenant that names none; `schema-pg` if absent'),
  drivers: Drivers.optional().describe('Options of each driver'),
  extensionsSchema: z
    .string()
    .min(1)
    .max(63)
    .optional()
    .describe("A schema with extensions, on every tenant's search path"),
})

export const PlacementSettings = z.strictObject({
  url: PostgresUrl.optional().describe("Owns the tenants' storage; of `main` it is `DATABASE_URL`"),
  tenantUrl: PostgresUrl.optional().describe("The login of tenants' queries; absent: made at the first start"),
  pooler: z
    .boolean()
    .optional()
    .describe('Whether a pooler in transaction mode (PgBouncer) stands before `tenantUrl`; default false'),
  publicRights: z
    .array(z.enum(PUBLIC_RIGHTS))
    .optional()
    .describe('Rights that PUBLIC keeps in the databases here; default none: see docs/security.md'),
  settings: z
    .record(z.string().regex(SETTING_NAME, 'not the name of a setting'), z.string())
    .optional()
    .describe(
      "Settings of tenants' sessions, by name (`statement_timeout`: `30s`); default: as a session of `url` has them",
    ),
  connections: z
    .strictObject({
      max: atLeast(1).optional().describe('At most, over all drivers and tenants; default 10'),
      perTenant: atLeast(1).optional().describe('Of those, for one tenant; default half of them'),
      queuePerTenant: atLeast(0).optional().describe('Statements of one tenant that may wait; default 100'),
      waitMs: atLeast(0).optional().describe('How long one may wait; default 5,000'),
    })
    .optional()
    .describe("Of one process, for tenants' queries on this server"),
})

/** What no key can know alone. */
export function placementErrors(placements: Readonly<Record<string, z.output<typeof PlacementSettings>>>): string[] {
  return Object.entries(placements).flatMap(([name, { url, ...placement }]) => {
    const faults = settingFaults(placement).map((fault) => `placements.${name}.${fault}`)
    if (name === 'main' && url) faults.push('placements.main.url: it is that of the backoffice: set DATABASE_URL')
    if (name !== 'main' && !url) faults.push(`placements.${name}.url: required`)
    return faults
  })
}
