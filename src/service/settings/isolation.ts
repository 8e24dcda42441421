/** Settings of tenants' storage. isolation-drivers.ts makes the drivers from them. */
import { z } from 'zod'
import { COLUMN_TYPES } from '../../drivers/isolation/row-security/tenant-column.ts'
import { SETTING_NAME, settingFaults } from '../../drivers/isolation/scope/session-settings.ts'
import { type IsolationDriver, PUBLIC_RIGHTS } from '../../tenants/isolation/driver.ts'
import { PostgresUrl } from './postgres-url.ts'

export { PostgresUrl }

const atLeast = (least: number) => z.number().int().min(least)

const Scope = z
  .enum(['batch', 'transaction'])
  .optional()
  .describe(
    '`batch` (default): sends the scope with each statement. `transaction`: wraps each statement in BEGIN and COMMIT',
  )
const driver = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape).optional()

const ExtensionsSchema = z
  .string()
  .min(1)
  .max(63)
  .optional()
  .describe("Schema with extensions, in every tenant's search path")

/** Options of each driver. */
const OPTIONS = {
  'schema-pg': {
    scope: Scope,
    names: z
      .enum(['path', 'qualified'])
      .optional()
      .describe('`path` (default): the search path resolves table names. `qualified`: Kysely writes the schema'),
  },
  'rowscope-pg': {
    scope: Scope,
    schema: z
      .string()
      .min(1)
      .max(63)
      .optional()
      .describe("Schema of the tenants' tables; an existing one must be adopted. Default: `tenantry_rows`"),
    tenantColumn: z
      .strictObject({
        name: z.string().min(1).max(63).describe('Name of the column'),
        type: z.enum(COLUMN_TYPES).describe('Its type; the value as text is the id of the tenant'),
      })
      .optional()
      .describe('Column with the tenant, in tables of a former application. Default: `tenant_id` of type text'),
  },
  'database-pg': {
    scope: Scope,
    template: z.string().min(1).max(63).optional().describe('Template of new databases. Default: `template0`'),
  },
  'sqlite-memory': {},
}
const NAMES = Object.keys(OPTIONS) as (keyof typeof OPTIONS)[]

const Drivers = z.strictObject({
  'schema-pg': driver(OPTIONS['schema-pg']).describe('A schema for each tenant'),
  'rowscope-pg': driver(OPTIONS['rowscope-pg']).describe('Shared tables under row level security'),
  'database-pg': driver(OPTIONS['database-pg']).describe('A database for each tenant'),
  'sqlite-memory': driver({}).describe('In memory, for tests and development. Enabled if it is named here'),
})

const Named = z.enum(NAMES, `must be one of ${NAMES.join(', ')}`)

/** All drivers, with options by name. */
const IsolationRecord = z.strictObject({
  default: Named.optional().describe('Driver of a tenant that names none. Default: `schema-pg`'),
  drivers: Drivers.optional().describe('Options of each driver'),
  extensionsSchema: ExtensionsSchema,
})

const listed = <Name extends (typeof NAMES)[number]>(name: Name) =>
  z.strictObject({ driver: z.literal(name), ...OPTIONS[name], extensionsSchema: ExtensionsSchema })

/** A driver by its name, with options, or as a value. */
const ListedDriver = z.union([
  Named,
  z.discriminatedUnion(
    'driver',
    [listed('schema-pg'), listed('rowscope-pg'), listed('database-pg'), listed('sqlite-memory')],
    `driver must be one of ${NAMES.join(', ')}`,
  ),
  z.custom<IsolationDriver>((value: any) => typeof value?.provision === 'function', 'must be an isolation driver'),
])

export const Isolation = z.union([z.array(ListedDriver).min(1).readonly(), IsolationRecord])

export const PlacementSettings = z.strictObject({
  url: PostgresUrl.optional().describe("URL of the owner of the tenants' storage; for `main` it is `DATABASE_URL`"),
  tenantUrl: PostgresUrl.optional().describe(
    "URL of the login for tenants' queries. Absent: created at the first start",
  ),
  pooler: z
    .boolean()
    .optional()
    .describe('Whether `tenantUrl` leads to a pooler in transaction mode (PgBouncer). Default: false'),
  publicRights: z
    .array(z.enum(PUBLIC_RIGHTS))
    .optional()
    .describe('Rights that PUBLIC keeps in the databases of this server. Default: none, see docs/security.md'),
  settings: z
    .record(z.string().regex(SETTING_NAME, 'must be the name of a setting'), z.string())
    .optional()
    .describe(
      "Settings of tenants' sessions by name (`statement_timeout`: `30s`). Default: those of a session of `url`",
    ),
  connections: z
    .strictObject({
      max: atLeast(1).optional().describe('Maximum number of connections, over all drivers and tenants. Default: 10'),
      perTenant: atLeast(1).optional().describe('Maximum number of these for one tenant. Default: half of them'),
      queuePerTenant: atLeast(0)
        .optional()
        .describe('Maximum number of waiting statements of one tenant. Default: 100'),
      waitMs: atLeast(0).optional().describe('Maximum wait of a statement. Default: 5,000'),
    })
    .optional()
    .describe("Connections of one process for tenants' queries on this server"),
})

/** Errors that involve several keys. */
export function placementErrors(placements: Readonly<Record<string, z.output<typeof PlacementSettings>>>): string[] {
  return Object.entries(placements).flatMap(([name, { url, ...placement }]) => {
    const faults = settingFaults(placement).map((fault) => `placements.${name}.${fault}`)
    if (name === 'main' && url)
      faults.push('placements.main.url: the URL of the backoffice comes from DATABASE_URL; remove this key')
    if (name !== 'main' && !url) faults.push(`placements.${name}.url: required`)
    return faults
  })
}
