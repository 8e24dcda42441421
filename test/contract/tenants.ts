/** Contract cases of tenants and of the service itself. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
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
const wrongQuery = { query: { colour: 'red' } }

const CONTEXT = { requestId: null, actor: { type: 'user', id: 'ann', name: 'Ann' }, ip: null }

export const tenants: Part = {
  operations: {
    'tenants.list': { success: { query: { q: '{id}' } }, wrong: { query: { limit: '201' } } },
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
    'tenant:migrate': { line: ['{id}'], json: { line: ['{id}', '--verify'] } },
    'tenant:migrate:rollback': { line: ['{id}', '--steps', '2'] },
    'tenant:migrate:status': { line: ['{id}'] },
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
