/**
 * Finds rows, store keys and jobs without a tenant. Tables and queues are read from the catalog, so that new ones are
 * included: each row names one tenant of the registry, or its table is listed here with the reason.
 */

import { TENANT_SCHEMA } from '../../src/drivers/isolation/database-pg.ts'
import { ROWS_SCHEMA } from '../../src/drivers/isolation/rowscope-pg.ts'
import type { Database } from '../../src/kernel/database/database.ts'

/** Tables of the backoffice without a tenant in their rows. */
const OF_NO_TENANT: Readonly<Record<string, string>> = {
  migrations: 'applied migrations of Tenantry’s own tables',
  idempotency_keys: 'encrypted responses to admin tokens, for a day; a request may concern many tenants, or none yet',
  application_key: 'proof of the application key',
  processes: 'processes of the service',
  api_tokens: 'tokens of operators, which may be limited to several tenants',
  api_sessions: 'browser sessions of operators',
  webhook_streams: 'cursors of subscriptions of the host',
  job_names: 'queues and schedules that processes know',
  installation: 'the id of the installation itself',
  placement_logins: 'roles of a server',
  tenant_logins: 'roles of a server, by the locators of its databases, which name their tenants',
  lost_placements: 'former servers',
  schema_versions: "sets of the host's migrations, which tenants share",
  migration_runs: 'a run covers many tenants; its items name them',
  command_runs: 'a run covers many tenants; its items name them',
  bulk_jobs: 'a job covers many tenants; its items name them',
  row_adoptions: "an adoption covers the tenants of a server's tables; its tenants name them",
  audit_state: 'the key of all seals',
  billing_inbox: 'events of the payment provider: their processing finds the tenant',
  billing_metered_quotas: 'start of billing of a quota, for all tenants',
  billing_health: 'health of the payment provider',
  store_sum_sources: 'processes, and the progress of their counts; the sums name their tenants',
}

/** Tables whose rows may have no tenant: null or, in a key, a dash. */
const MAY_BE_NOBODYS: Readonly<Record<string, string>> = {
  audit_entries: 'changes of the service itself',
  audit_seals: 'the chain of changes of the service itself, under a dash',
  audit_heads: 'of that chain',
  audit_checkpoints: 'of that chain',
  migration_items: 'shared tables are migrated for all tenants',
  webhook_subscriptions: 'subscriptions of the host, which receive events of all tenants',
  webhook_messages: 'events without a tenant, and test messages to the host',
  webhook_deliveries: 'of such messages',
  webhook_attempts: 'of such deliveries',
  webhook_counters: 'counts of such deliveries',
}

/** Columns that name the tenant under another name. */
const NAMED_BY: Readonly<Record<string, string>> = { tenants: 'id', store: 'owner' }

/** Store keys of the service itself. */
const OF_THE_SERVICE: readonly (readonly [RegExp, string])[] = [
  [/^sign-in-code:/, 'creates a browser session'],
  [/^denied:/, 'of a token'],
  [/^failed-sign-ins:/, 'of a client address'],
  [/^circuit(-probe)?:/, 'of a server, which tenants share'],
  [/^doctor$/, 'numbers of findings over all tenants'],
]

/** Queues whose jobs belong to no tenant. */
const SERVES_ALL: readonly (readonly [RegExp, string])[] = [
  [/^__pgboss__/, "the queue's own maintenance"],
  [
    /^tenantry\.(PurgeTenants|RecoverInstallations|RecoverAdoptions|RecoverErasures|RecoverFences|RecoverTransfers|RunBackups)$/,
    'checks all tenants',
  ],
  [/^tenantry\.ExamineInstallation$/, 'examines the whole installation'],
  [/^tenantry\.(DeliverWebhooks|StreamToWebhooks|TrimWebhooks)$/, 'deliveries of all tenants'],
  [/^tenantry\.(SealAuditLog|TrimAuditLog)$/, 'entries of all tenants'],
  [/^tenantry\.ProcessProviderEvent$/, 'of the payment provider: the processing finds the tenant'],
  [/^tenantry\.CancelSubscriptions$/, 'of a customer, which remains after its tenant is deleted'],
  [/^tenantry\.(SweepBilling|CleanUpBilling|PingProvider)$/, 'subscriptions of all tenants'],
  [/^tenantry\.(RunBulk|RecoverBulk|WorkMigrationRun|RecoverMigrationRuns)$/, 'many tenants'],
  [/^tenantry\.FlushMetrics$/, 'counts of all tenants'],
  [/^tenantry\.PruneOutbox$/, 'ids of applied entries of all tenants'],
  [
    /^tenantry\.(UninstallTenant|EraseTenant)$/,
    'of the service: a job of the tenant would remain after its own deletion',
  ],
]

/** Lists everything without a tenant; empty if there is nothing. */
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
      if (columns?.length) found.push(`the table ${name} is declared without a tenant, and has ${columns}`)
      continue
    }
    if (others.length > 0) found.push(`the table ${name} also names a tenant in ${others}`)
    if (!(name in NAMED_BY) && !columns?.includes(column)) {
      found.push(`the table ${name} does not name its tenant`)
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
    .map(({ key }) => `the key ${key} of the store belongs to no tenant`)
}

async function unownedJobs(database: Database, known: ReadonlySet<string>): Promise<string[]> {
  // Schedules count like jobs: whether a job exists depends on the time of day.
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
    if (group === null && !SERVES_ALL.some(([pattern]) => pattern.test(queue))) return [`${words} belongs to no tenant`]
    return []
  })
}

/** Tables of the drivers with a locator, next to the tenants' rows. */
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
  const found = silent.map(({ name }) => `the table ${name} does not name its tenant`)
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
