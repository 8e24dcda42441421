/** Contract cases of the host's migrations and their runs. */
import type { Case, Part } from './row.ts'

const IDLE = 'no migration run is unfinished'
const START = 'POST /migration-runs {"tenantIds":["{id}"],"verify":true}'
/** A success of `start` joins it, so that it does not end the run of another case. */
const START_ALL = 'POST /migration-runs {"verify":true,"retries":0}'
const body = { tenantIds: ['{id}'] }
const absent = { tenant: 'none' } as const
const UNKNOWN = { tenant: 'none', params: { runId: '00000000-0000-7000-8000-000000000000' } } as const
const wrong = { params: { runId: 'newest' } }
const started: Case = { given: [IDLE, START_ALL], params: { runId: '{given}' } }
const ended: Case = { given: [IDLE, START_ALL, IDLE], params: { runId: '{given}' } }

export const migrations: Part = {
  operations: {
    'migrations.status': { success: {}, wrong: { query: { colour: 'red' } } },
    'migrations.list': {
      success: { query: { verify: 'true' } },
      wrong: { query: { verify: 'yes' } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
    'migrationRuns.list': { success: started, wrong: { query: { limit: '0' } } },
    'migrationRuns.get': { success: started, wrong, also: { E_MIGRATION_RUN_NOT_FOUND: UNKNOWN } },
    'migrationRuns.items': {
      success: { ...started, query: { state: 'pending' } },
      wrong,
      also: { E_MIGRATION_RUN_NOT_FOUND: UNKNOWN },
    },
    'migrationRuns.cancel': {
      success: started,
      wrong,
      also: { E_MIGRATION_RUN_NOT_FOUND: UNKNOWN, E_MIGRATION_RUN_ENDED: ended },
    },
    'migrationRuns.start': {
      success: { body: { verify: true, retries: 0 } },
      wrong: { body: { tenantIds: [] } },
      also: {
        E_MIGRATION_RUNNING: { ...started, body },
        E_TENANT_NOT_FOUND: { ...absent, body },
        E_TENANT_STATE: { tenant: 'provisioning', body },
      },
    },
  },
  commands: {
    'tenant:migrate': { given: [IDLE], line: ['{id}'], json: { line: ['{id}', '--verify'] } },
    'tenant:migrate:rollback': { given: [IDLE], line: ['{id}', '--steps', '2'] },
    'tenant:migrate:status': { line: ['{id}'] },
    'tenant:migrate:start': { given: [IDLE], line: ['--tenant', '{id}', '--verify'] },
    'tenant:migrate:list': { given: [IDLE, START], line: ['--limit', '1'] },
    'tenant:migrate:show': { given: [IDLE, START], line: ['{given}'] },
    'tenant:migrate:items': { given: [IDLE, START], line: ['{given}'] },
    'tenant:migrate:cancel': { given: [IDLE, START], line: ['{given}'] },
  },
  jobs: {
    WorkMigrationRun: { given: [IDLE, START_ALL], data: { runId: '{given}' } },
    RecoverMigrationRuns: { data: {} },
  },
  events: [],
  happenings: {
    [IDLE]: async ({ api: { tenancy } }) => {
      await tenancy.kernel.database.sql(
        `update multitenancy.migration_runs set state = 'cancelled', finished_at = now() where state = 'running'`,
      )
      return {}
    },
  },
}
