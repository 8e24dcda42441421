/**
 * Whose everything is. Read from the catalog, so that a table, a queue or a key which nobody thought of is asked too: each row
 * names one tenant that the registry knows, or is declared here, with its reason, to be nobody's.
 */

import { TENANT_SCHEMA } from '../../src/drivers/isolation/database-pg.ts'
import { ROWS_SCHEMA } from '../../src/drivers/isolation/rowscope-pg.ts'
import type { Database } from '../../src/kernel/database/database.ts'

/** Tables of the backoffice without a tenant in their rows. */
const OF_NO_TENANT: Readonly<Record<string, string>> = {
  migrations: 'what our own tables have been brought up to',
  idempotency_keys: 'answers to admin tokens, sealed, for a day; a request may be about many tenants, or none yet',
  job_names: 'queues and schedules that processes know',
  installation: 'the id of the installation itself',
  placement_logins: 'roles of a server',
  tenant_logins: 'roles of a server, by the locators of its databases, which name their tenants',
  lost_placements: 'servers that are gone',
  schema_versions: "sets of the host's migrations, which tenants have in common",
  migration_runs: 'a run is over many tenants; its items name them',
  audit_state: 'the key of all seals',
  billing_inbox: 'events of the payment provider: whose they are turns out when they are processed',
  billing_metered_quotas: 'since when a quota is paid for, whoever uses it',
  billing_health: 'how the payment provider has answered',
  store_sum_sources: 'processes, and how far the store has taken what they count; the sums name their tenants',
}

/** Where a row may name nobody, by null or, in a key, by a dash. */
const MAY_BE_NOBODYS: Readonly<Record<string, string>> = {
  audit_entries: 'what is done to the service itself',
  audit_seals: 'of what is done to the service itself, under a dash',
  audit_heads: 'of that chain',
  audit_checkpoints: 'of that chain',
  migration_items: 'tables that tenants share are migrated for all of them',
  webhook_subscriptions: "the host's own, which hear of all tenants",
  webhook_messages: 'events that are of no tenant, and what is sent to the host to try its subscription',
  webhook_deliveries: 'of such messages',
  webhook_attempts: 'of such deliveries',
  webhook_counters: 'such deliveries, counted',
}

/** Columns that name the tenant, where they are called otherwise. */
const NAMED_BY: Readonly<Record<string, string>> = { tenants: 'id', store: 'owner' }

/** Keys of the store that are the service's own. */
const OF_THE_SERVICE: readonly (readonly [RegExp, string])[] = [
  [/^session:/, 'of a person with an admin token'],
  [/^sign-in-code:/, 'makes such a session'],
  [/^failed-sign-ins:/, 'of a client address'],
  [/^circuit(-probe)?:/, 'of a server, which tenants share'],
]

/** Queues whose jobs belong to no tenant. */
const SERVES_ALL: readonly (readonly [RegExp, string])[] = [
  [/^__pgboss__/, "the queue's own upkeep"],
  [
    /^tenantry\.(PurgeTenants|RecoverInstallations|RecoverFences|RecoverTransfers|RunBackups)$/,
    'looks through all tenants',
  ],
  [/^tenantry\.(DeliverWebhooks|TrimWebhooks)$/, 'deliveries of all tenants'],
  [/^tenantry\.(SealAuditLog|TrimAuditLog)$/, 'entries of all tenants'],
  [/^tenantry\.ProcessProviderEvent$/, 'of the payment provider: whose it is turns out when it is processed'],
  [/^tenantry\.CancelSubscriptions$/, 'of a customer, which is left when its tenant is gone'],
  [/^tenantry\.(SweepBilling|CleanUpBilling|PingProvider)$/, 'subscriptions of all tenants'],
  [/^tenantry\.FlushMetrics$/, 'what was counted of all tenants'],
  [/^tenantry\.UninstallTenant$/, 'of the service: as the tenant’s own it would be left over from what it removes'],
]

/** What does not say whose it is, in words; empty when everything does. */
export async function unowned(database: Database): Promise<string[]> {
  const known = new Set((await database.sql('select id from multitenancy.tenants')).rows.map(({ id }) => id))
  return [
    ...(await unownedRows(database, known)),
    ...(await unownedKeys(database)),
    ...(await unownedJobs(database, known)),
    ...(await unownedStorage(database)),
  ]
}

async function unownedRows(database: Database, known: ReadonlySet<string>): Promise<string[]> {
  const { rows: tables } = await database.sql(
    `select relname as name, array_remove(array_agg(attname::text order by attname)
       filter (where attname like '%tenant%' and attname <> 'tenants'), null) as columns
     from pg_class left join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
     where relnamespace = 'multitenancy'::regnamespace and relkind in ('r', 'p') and not relispartition
     group by relname order by relname`,
  )
  const found: string[] = []
  for (const { name, columns } of tables as { name: string; columns: string[] | null }[]) {
    const column = NAMED_BY[name] ?? 'tenant_id'
    const others = (columns ?? []).filter((one) => one !== column)
    if (name in OF_NO_TENANT) {
      if (columns?.length) found.push(`the table ${name} is declared nobody's, and has ${columns}`)
      continue
    }
    if (others.length > 0) found.push(`the table ${name} names a tenant in ${others} too`)
    if (!(name in NAMED_BY) && !columns?.includes(column)) {
      found.push(`the table ${name} does not say whose its rows are`)
      continue
    }
    const { rows } = await database.sql(`select distinct ${column} as id from multitenancy.${name}`)
    for (const { id } of rows) {
      const isNobodys = name === 'store' ? id === '' : (id === null || id === '-') && name in MAY_BE_NOBODYS
      if (!isNobodys && !known.has(id)) found.push(`a row of ${name} belongs to ${JSON.stringify(id)}`)
    }
  }
  return found
}

async function unownedKeys(database: Database): Promise<string[]> {
  const { rows } = await database.sql(`select key from multitenancy.store where owner = '' order by key`)
  return rows
    .filter(({ key }) => !OF_THE_SERVICE.some(([pattern]) => pattern.test(key)))
    .map(({ key }) => `the key ${key} of the store belongs to nobody`)
}

async function unownedJobs(database: Database, known: ReadonlySet<string>): Promise<string[]> {
  // The schedule counts as well as its jobs: whether one of them exists depends on the time of day.
  const { rows } = await database.sql(
    `select name, source_name, group_id, data ->> 'tenantId' as named from multitenancy_jobs.job
     union select name, null, null, null from multitenancy_jobs.schedule`,
  )
  return rows.flatMap(({ name, source_name: source, group_id: group, named }) => {
    const queue: string = source ?? name
    const words = `a job of ${queue}`
    if (group !== null && !known.has(group)) return [`${words} belongs to ${JSON.stringify(group)}`]
    if (group !== null && named !== null && named !== group)
      return [`${words} belongs to ${group}, and is for ${named}`]
    if (group === null && !SERVES_ALL.some(([pattern]) => pattern.test(queue))) return [`${words} belongs to nobody`]
    return []
  })
}

/** Beside tenants' rows, in the database that they are in: what is kept by locator. */
async function unownedStorage(database: Database): Promise<string[]> {
  const { rows: tables } = await database.sql(
    `select format('%I.%I', relnamespace::regnamespace, relname) as name, attname as column
     from pg_attribute join pg_class on pg_class.oid = attrelid
     where relkind in ('r', 'p') and attnum > 0 and not attisdropped and (
       relnamespace = to_regnamespace('tenantry') and attname in ('tenant', 'locator')
       or relnamespace = to_regnamespace($1) and attname = 'tenant_id')`,
    [ROWS_SCHEMA],
  )
  const { rows: silent } = await database.sql(
    `select format('%I.%I', relnamespace::regnamespace, relname) as name from pg_class
     where relkind in ('r', 'p') and relnamespace in (to_regnamespace('tenantry'), to_regnamespace($1))
       and pg_class.oid <> all ($2::regclass[])`,
    [ROWS_SCHEMA, tables.map(({ name }) => name)],
  )
  const found = silent.map(({ name }) => `the table ${name} does not say whose its rows are`)
  for (const { name, column } of tables) {
    const { rows } = await database.sql(
      `select distinct ${column} as locator from ${name}
       where ${column} <> all ($1) and ${column} not in (select locator from multitenancy.tenants where purged_at is null)`,
      [[ROWS_SCHEMA, TENANT_SCHEMA]],
    )
    found.push(...rows.map(({ locator }) => `a row of ${name} belongs to ${JSON.stringify(locator)}`))
  }
  return found
}
