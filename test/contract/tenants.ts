/** Contract cases of tenants and of the service itself. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { runCommand } from './command-line.ts'
import { FAILING, type Names, type Part, REFUSED, type Runner } from './row.ts'

const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] } as const
const suspended = { given: ['PUT /tenants/{id}/suspend'] } as const
const refused = { tenant: 'none', given: [REFUSED] } as const
const waits = { waits: true } as const
const INSTALLED = 'its installation has ended'
const DELETED = 'it was deleted before it was installed'
const ERASE = { confirm: '{id}', reason: 'request 4711' }
const ERASED = 'POST /tenants/{id}/erase {"confirm":"{id}","reason":"request 4711"}'
const wrongId = { params: { id: 'No Id' } }
const PROVED = 'its erasure has ended'
const DEAD = 'a job of it is a dead letter'
const ORPHANED = 'a job of an unknown queue is a dead letter'
const FAILED = 'an entry of its outbox has failed'
const noLetter = { tenant: 'none', params: { deadLetterId: '00000000-0000-7000-8000-000000000000' } } as const
const wrongLetter = { params: { deadLetterId: 'newest' } }
const LEGACY = 'an application has a schema'
const legacy = { isolation: 'schema-pg', schema: '{schema}', baseline: '0002_stars' }
const ADOPTED = `POST /tenants/adopt ${JSON.stringify({ id: '{id}', ...legacy, digest: '{digest}' })}`
const adopted = { tenant: 'none', given: [LEGACY, ADOPTED] } as const
const TABLES = 'an application has tables of all customers'
const tables = { baseline: '0002_stars', acceptDifferences: ['column notes.org_id'] }
const ADOPTED_TABLES = `POST /tenants/adopt-tables ${JSON.stringify({ ...tables, digest: '{digest}' })}`
const adoptedTables = { tenant: 'none', given: [TABLES, ADOPTED_TABLES] } as const
const OTHER_TABLES = 'another application has tables of all customers'
const released = { isolation: 'rows-to-release' }
const others = {
  ...released,
  from: 'released_orgs.orgs',
  baseline: '0002_stars',
  acceptDifferences: [
    'table notes',
    'column notes.text',
    'column notes.stars',
    'table countries',
    'column countries.code',
  ],
}
const ADOPTED_OTHERS = `POST /tenants/adopt-tables ${JSON.stringify({ ...others, digest: '{digest}' })}`
const wrongQuery = { query: { colour: 'red' } }

const CONTEXT = { requestId: null, actor: { type: 'user', id: 'ann', name: 'Ann' }, ip: null }

export const tenants: Part = {
  operations: {
    'tenants.list': {
      success: { query: { q: '{id}', plan: 'free', inMaintenance: 'false', sort: 'name' } },
      wrong: { query: { limit: '201' } },
      also: { E_PLAN_RESOLVED_BY_HOST: { query: { plan: 'pro' }, plansOfHost: true } },
    },
    'tenants.counts': {
      success: { query: { by: 'status,placement' } },
      wrong: { query: { by: 'status,status' } },
      also: { E_PLAN_RESOLVED_BY_HOST: { query: { by: 'plan' }, plansOfHost: true } },
    },
    'placements.list': { success: {}, wrong: wrongQuery },
    'circuits.list': { success: {}, wrong: wrongQuery, needsNoDatabase: true },
    'search.find': { success: { query: { q: '{id}' } }, wrong: { query: { q: ' ' } } },
    'tenants.get': { success: {}, wrong: wrongId, also: { E_TENANT_NOT_FOUND: absent } },
    'tenants.create': {
      success: { tenant: 'none', body: { id: '{id}', name: 'Acme' } },
      wrong: { body: { id: '{id}' } },
      also: {
        E_TENANT_EXISTS: { body: { id: '{id}', name: 'Acme' } },
        E_DOMAIN_TAKEN: {
          given: ['PATCH /tenants/{id} {"domains":["{id}.example"]}'],
          body: { name: 'Acme', domains: ['{id}.example'] },
        },
        E_INSTALLATION_FAILED: { ...refused, ...waits, body: { id: '{id}', name: 'Acme' } },
        E_MIGRATION_FAILED: { tenant: 'none', ...waits, body: { id: `${FAILING}-{id}`, name: 'Acme' } },
      },
    },
    'tenants.update': {
      success: { body: { name: 'Acme & Co.' } },
      wrong: { body: { name: '' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: {} },
        E_TENANT_STATE: { ...deleted, body: { name: 'Acme' } },
        E_DOMAIN_TAKEN: {
          given: ['POST /tenants {"name":"Acme","domains":["{id}.example"]}'],
          body: { domains: ['{id}.example'] },
        },
      },
    },
    'tenants.activate': {
      success: suspended,
      wrong: { body: { now: true } },
      also: {
        202: { tenant: 'failed' },
        E_TENANT_NOT_FOUND: absent,
        E_TENANT_STATE: deleted,
        E_INSTALLATION_FAILED: { tenant: 'none', given: [REFUSED, INSTALLED], ...waits },
        E_MIGRATION_FAILED: { tenant: 'failed', ...waits },
      },
    },
    'tenants.suspend': {
      success: {},
      wrong: { body: { now: true } },
      also: { E_TENANT_NOT_FOUND: absent, E_TENANT_STATE: { tenant: 'provisioning' } },
    },
    'tenants.delete': { success: {}, wrong: wrongQuery, also: { E_TENANT_NOT_FOUND: absent } },
    'tenants.restore': {
      success: deleted,
      wrong: { body: { now: true } },
      also: {
        202: { tenant: 'provisioning', ...deleted },
        E_TENANT_NOT_FOUND: absent,
        E_TENANT_STATE: {},
        E_INSTALLATION_FAILED: { tenant: 'none', given: [REFUSED, INSTALLED, DELETED], ...waits },
        E_MIGRATION_FAILED: { tenant: 'failed', given: [DELETED], ...waits },
      },
    },
    'tenants.erase': {
      success: { body: ERASE },
      wrong: { body: { confirm: '{id}', reason: '' } },
      also: {
        200: { given: [ERASED, PROVED], body: ERASE },
        E_TENANT_NOT_FOUND: { ...absent, body: ERASE },
        E_TENANT_STATE: { given: [ERASED], body: { ...ERASE, billing: 'delete' } },
        E_CONFIRMATION_MISMATCH: { body: { ...ERASE, confirm: 'another' } },
      },
    },
    'erasures.get': {
      success: { given: [ERASED] },
      wrong: wrongId,
      also: { E_TENANT_NOT_FOUND: absent, E_ERASURE_NOT_FOUND: {} },
    },
    'tenants.enterMaintenance': {
      success: { body: { message: 'Back at noon', retryAfterSeconds: 600 } },
      wrong: { body: { retryAfterSeconds: 0 } },
      also: { E_TENANT_NOT_FOUND: absent, E_TENANT_STATE: deleted },
    },
    'tenants.exitMaintenance': {
      success: { given: ['PUT /tenants/{id}/maintenance'] },
      wrong: wrongQuery,
      also: { E_TENANT_NOT_FOUND: absent, E_TENANT_STATE: deleted },
    },
    'tenants.setPlan': {
      success: { params: { plan: 'pro' } },
      wrong: { params: { plan: 'x'.repeat(129) } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, params: { plan: 'pro' } },
        E_TENANT_STATE: { ...deleted, params: { plan: 'pro' } },
        E_PLAN_NOT_FOUND: { params: { plan: 'constructor' } },
        E_PLAN_RESOLVED_BY_HOST: { params: { plan: 'pro' }, plansOfHost: true },
      },
    },
    'tenants.planAdoption': {
      success: { tenant: 'none', given: [LEGACY], body: { id: '{id}', ...legacy } },
      wrong: { body: { id: '{id}', isolation: 'schema-pg' } },
      also: {
        E_NOT_ADOPTABLE: { tenant: 'none', body: { id: '{id}', ...legacy, schema: 'nowhere' } },
        E_NOT_SUPPORTED: { tenant: 'none', body: { id: '{id}', ...legacy, isolation: 'sqlite-memory' } },
      },
    },
    'tenants.adopt': {
      success: { tenant: 'none', given: [LEGACY], body: { id: '{id}', ...legacy, digest: '{digest}' } },
      wrong: { body: { id: '{id}', ...legacy } },
      also: {
        E_NOT_ADOPTABLE: { tenant: 'none', given: [LEGACY], body: { id: '{id}', ...legacy, digest: 'outdated' } },
        E_TENANT_EXISTS: { given: [LEGACY], body: { id: '{id}', ...legacy, digest: '{digest}' } },
        E_NOT_SUPPORTED: { tenant: 'none', body: { id: '{id}', ...legacy, isolation: 'sqlite-memory', digest: '-' } },
      },
    },
    'tenants.release': {
      success: adopted,
      wrong: wrongId,
      also: { E_TENANT_NOT_FOUND: absent, E_TENANT_STATE: {} },
    },
    'tenants.planTableAdoption': {
      success: { tenant: 'none', given: [TABLES], body: tables },
      wrong: { body: { ...tables, from: '' } },
      also: {
        E_NOT_ADOPTABLE: { tenant: 'none', given: [TABLES], body: { ...tables, from: 'nowhere.orgs' } },
        E_NOT_SUPPORTED: { tenant: 'none', body: { ...tables, isolation: 'schema-pg' } },
      },
    },
    'tenants.adoptTables': {
      success: { tenant: 'none', given: [TABLES], body: { ...tables, digest: '{digest}' } },
      wrong: { body: tables },
      also: {
        E_NOT_ADOPTABLE: { tenant: 'none', given: [TABLES], body: { ...tables, digest: 'outdated' } },
        E_TENANT_EXISTS: {
          given: [TABLES, 'the tables have a row of the tenant'],
          body: { ...tables, digest: '{digest}' },
        },
        E_NOT_SUPPORTED: { tenant: 'none', body: { ...tables, isolation: 'schema-pg', digest: '-' } },
      },
    },
    'tenants.releaseTables': {
      success: { tenant: 'none', given: [OTHER_TABLES, ADOPTED_OTHERS], body: released },
      wrong: { body: { colour: 'red' } },
      also: {
        E_TENANT_STATE: { tenant: 'none', given: [TABLES], body: {} },
        E_NOT_SUPPORTED: { tenant: 'none', body: { isolation: 'schema-pg' } },
      },
    },
    'queues.list': {
      success: { query: { tenantId: '{id}' } },
      wrong: { query: { tenantId: 'No Id' } },
      also: { E_TENANT_NOT_FOUND: { query: { tenantId: 'unknown' } } },
    },
    'tenants.queue': { success: {}, wrong: wrongId, also: { E_TENANT_NOT_FOUND: absent } },
    'deadLetters.list': { success: { given: [DEAD], query: { tenantId: '{id}' } }, wrong: { query: { queue: '' } } },
    'deadLetters.get': {
      success: { given: [DEAD] },
      wrong: wrongLetter,
      also: { E_DEAD_LETTER_NOT_FOUND: noLetter },
    },
    'deadLetters.retry': {
      success: { given: [DEAD] },
      wrong: wrongLetter,
      also: { E_DEAD_LETTER_NOT_FOUND: noLetter, E_DEAD_LETTER_ORPHANED: { given: [ORPHANED] } },
    },
    'deadLetters.delete': {
      success: { given: [DEAD] },
      wrong: wrongLetter,
      also: { E_DEAD_LETTER_NOT_FOUND: noLetter },
    },
    'outbox.list': { success: { given: [FAILED], query: { tenantId: '{id}' } }, wrong: { query: { limit: '0' } } },
    'outbox.retry': { success: { given: [FAILED], body: { tenantId: '{id}' } }, wrong: { body: { id: 'oldest' } } },
    'outbox.mark': { success: {}, wrong: wrongId, also: { E_TENANT_NOT_FOUND: absent } },
    'outbox.relay': { success: {}, wrong: wrongId, also: { E_TENANT_NOT_FOUND: absent } },
    'plans.list': { success: {}, wrong: wrongQuery, needsNoDatabase: true },
    'health.get': { success: {}, wrong: wrongQuery },
    'doctor.get': { success: {}, wrong: wrongQuery },
    'processes.list': { success: {}, wrong: wrongQuery },
  },
  commands: {
    'tenant:list': { line: ['--limit', '1', '--status', 'active'] },
    'tenant:show': { line: ['{id}'] },
    'tenant:create': { tenant: 'none', line: ['Acme', '--id', '{id}', '--plan', 'pro'] },
    'tenant:update': {
      line: ['{id}', '--name', 'Acme & Co.', '--metadata', '{"seats":12}', '--domain', '{id}.example'],
    },
    'tenant:plan:set': { line: ['{id}', 'pro'] },
    'tenant:count': { line: ['--by', 'status'] },
    'placement:list': { line: [] },
    'circuit:list': { line: [] },
    search: { line: ['{id}'] },
    'plan:list': { line: [] },
    processes: { line: [] },
    'dead-letter:list': { given: [DEAD], line: ['--tenant', '{id}'] },
    'dead-letter:show': { given: [DEAD], line: ['{deadLetterId}'] },
    'dead-letter:retry': { given: [DEAD], line: ['{deadLetterId}'] },
    'dead-letter:delete': { given: [ORPHANED], line: ['{deadLetterId}'] },
    'outbox:list': { given: [FAILED], line: ['--tenant', '{id}'] },
    'outbox:retry': { given: [FAILED], line: ['--tenant', '{id}'] },
    'tenant:activate': { ...suspended, line: ['{id}'] },
    'tenant:suspend': { line: ['{id}'] },
    'tenant:delete': { line: ['{id}'] },
    'tenant:restore': { ...deleted, line: ['{id}'] },
    'tenant:maintenance': { line: ['{id}', '--message', 'Back at noon'] },
    'tenant:purge': { ...deleted, line: ['{id}'] },
    'tenant:erasure:report': { given: [ERASED, PROVED], line: ['{id}'] },
    'tenant:adopt': {
      tenant: 'none',
      given: [LEGACY],
      line: ['{id}', '--isolation', 'schema-pg', '--schema', '{schema}', '--baseline', '0002_stars'],
    },
    'tenant:release': { ...adopted, line: ['{id}'] },
    'tenant:adopt:tables': {
      tenant: 'none',
      given: [TABLES],
      line: ['--baseline', '0002_stars', '--accept-differences', 'column notes.org_id'],
    },
    'tenant:release:tables': { ...adoptedTables, line: [] },
    'tenant:seed': { line: ['{id}', '--file', join(import.meta.dirname, 'seed.sql')] },
    'tenant:import': { line: ['{id}', '--file', join(import.meta.dirname, 'import.sql')] },
    'tenant:exec': { line: ['{id}', '--sql', 'select count(*) from notes'] },
    'tenant:repl': { line: ['{id}'] },
    'tenant:queue:stats': { line: ['{id}'] },
    'backoffice:restored': { line: [] },
    'placement:forget': { placement: 'flooded', line: ['flooded'] },
  },
  jobs: {
    InstallTenant: { tenant: 'provisioning', data: { tenantId: '{id}' } },
    FenceTenant: { ...suspended, data: { tenantId: '{id}' } },
    UninstallTenant: { ...deleted, data: { tenantId: '{id}' } },
    EraseTenant: { given: [ERASED], data: { tenantId: '{id}' } },
    RecoverErasures: { data: {} },
    PurgeTenants: { data: {} },
    RecoverInstallations: { data: {} },
    RecoverAdoptions: { data: {} },
    RecoverFences: { data: {} },
    ExamineInstallation: { data: {} },
    PruneOutbox: { data: {} },
  },
  events: [
    'TenantCreated',
    'TenantProvisioned',
    'TenantProvisioningFailed',
    'TenantActivated',
    'TenantSuspended',
    'TenantSuspensionRepeated',
    'TenantUpdated',
    'TenantMigrated',
    'TenantDeleted',
    'TenantRestored',
    'TenantEnteredMaintenance',
    'TenantExitedMaintenance',
    'TenantPurged',
    'TenantErased',
    'BackofficeRestored',
    'DependencyDegraded',
    'TenantLoginRestored',
  ],
  happenings: {
    [DEAD]: (runner, names) => deadLetter(runner, names, 'tenantry.InstallTenant'),
    [ORPHANED]: (runner, names) => deadLetter(runner, names, 'tenantry.OfAnotherRelease'),
    [FAILED]: async ({ api: { tenancy } }, { id = '' }) => {
      await tenancy.kernel.database.sql(
        `insert into multitenancy.outbox_failed (id, tenant_id, kind, payload, context, posted_at, failed_at, error)
         values ($1, $2, 'changes.record', $3, $4, now(), now(), 'The entry could not be applied.')`,
        [randomUUID(), id, JSON.stringify({ action: 'notes.create', target: 'note:1' }), JSON.stringify(CONTEXT)],
      )
      return {}
    },
    [PROVED]: async ({ api: { tenancy } }, { id = '' }) => {
      await tenancy.tenants.erasures.work(id, { signal: AbortSignal.timeout(60_000) })
      return {}
    },
    [LEGACY]: async ({ api: { tenancy } }, { id = '' }) => {
      const schema = `legacy_${id}`
      await tenancy.kernel.database.session(
        async (client) =>
          void (await client.query(
            `create schema "${schema}"; create table "${schema}".notes (text text not null, stars integer)`,
          )),
      )
      const { digest } = await tenancy.tenants.adoptions.plan({ id, ...legacy, schema })
      return { schema, digest }
    },
    [TABLES]: ({ api: { tenancy } }) => sharedTables(tenancy, 'org-1'),
    [OTHER_TABLES]: ({ api: { tenancy } }, { id = '' }) => otherTables(tenancy, `org-${id}`),
    'the tables have a row of the tenant': ({ api: { tenancy } }, { id = '' }) => sharedTables(tenancy, id),
    [INSTALLED]: async ({ api: { tenancy } }, { id = '' }) => {
      await tenancy.tenants.create({ id, name: 'Acme' })
      await tenancy.tenants.installation.install(id, { isLast: true })
      return {}
    },
    [DELETED]: async ({ api: { tenancy } }, { id = '' }) => {
      await tenancy.tenants.delete(id)
      const before = `update multitenancy.tenants set status_before = 'provisioning' where id = $1`
      await tenancy.kernel.database.sql(before, [id])
      return {}
    },
  },
  scenes: {
    'a backoffice that was restored from a dump': ({ api: { tenancy } }) =>
      runCommand(tenancy, ['backoffice:restored']),
    'a login of tenants that has defaults of its own': async ({ api: { tenancy } }) => {
      const { rows } = await tenancy.kernel.database.sql('select login from multitenancy.placement_logins limit 1')
      await tenancy.kernel.database.sql(`alter role "${rows[0].login}" set datestyle = 'German'`)
      await tenancy.doctor.fix({ approve: async () => true })
    },
    'a repeated suspension': async ({ api: { tenancy }, prepare }) => {
      const { id = '' } = await prepare(suspended)
      await tenancy.tenants.suspend(id)
    },
    'a plan that cannot be resolved': async ({ plansOfHost, prepare }) => {
      const { tenancy } = await plansOfHost()
      const { id = '' } = await prepare({})
      await tenancy.tenants.plans.resolve(await tenancy.tenants.get(id))
    },
  },
}

/** Adds a dead letter as pg-boss does after the last attempt. */
async function deadLetter({ api }: Runner, { id = '' }: Names, queue: string): Promise<Names> {
  const { rows } = await api.tenancy.kernel.database.sql(
    `insert into multitenancy_jobs.job (name, data, group_id, source_name, source_retry_count, source_output)
     values ('tenantry.dead-letter', $1, $2, $3, 3, '{"message":"E_MIGRATION_FAILED"}') returning id`,
    [JSON.stringify({ tenantId: id }), id, queue],
  )
  return { deadLetterId: rows[0].id }
}

/** Removes the tables of the previous case, and creates those of an application with one customer. */
async function createTables(
  { kernel: { database }, tenants }: Tenancy,
  isolation: string,
  schema: string,
  text: string,
) {
  await tenants.storage.driver('schema-pg').inventory?.('main') // prepares the server
  const purged = `update multitenancy.tenants set status = 'deleted', purged_at = now(), locator = 'released ' || id where isolation = $1`
  for (const text of [purged, 'delete from multitenancy.row_adoptions where isolation = $1'])
    await database.sql(text, [isolation])
  await database.session(
    async (client) =>
      void (await client.query(
        `drop schema if exists ${schema} cascade; create schema ${schema};
         delete from tenantry.adoptions where locator = '${schema}'; delete from tenantry.migrations where locator = '${schema}'; ${text}`,
      )),
  )
}

async function sharedTables(tenancy: Tenancy, customer: string): Promise<Names> {
  await createTables(
    tenancy,
    'rowscope-pg',
    'shared_rows',
    `create table shared_rows.notes (text text not null, stars integer, org_id text not null);
     insert into shared_rows.notes values ('hello', 1, '${customer}')`,
  )
  const { digest } = await tenancy.tenants.adoptions.tables.plan(tables)
  return { digest }
}

/** Only with a lookup table: two schemas with tenants' rows in one database are a finding. */
async function otherTables(tenancy: Tenancy, customer: string): Promise<Names> {
  await createTables(
    tenancy,
    released.isolation,
    'released_rows',
    `create table released_rows.countries (code text); comment on table released_rows.countries is 'tenantry: shared';
     create schema if not exists released_orgs; create table if not exists released_orgs.orgs (id text);
     truncate released_orgs.orgs; insert into released_orgs.orgs values ('${customer}')`,
  )
  const { digest } = await tenancy.tenants.adoptions.tables.plan(others)
  return { digest }
}
