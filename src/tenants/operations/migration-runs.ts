/** Operations on migration runs: list, start by workers, cancel. */
import { z } from 'zod'
import { Reply, type Waiting } from '../../kernel/api/operation.ts'
import { count, countOrNone } from '../../kernel/api/option-values.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { number } from '../../kernel/base/format.ts'
import {
  MigrationRunEnded,
  MigrationRunNotFound,
  MigrationRunning,
  MigrationsIncomplete,
} from '../migrations/errors.ts'
import { finishedOf } from '../migrations/model/run.ts'
import { MigrationItem, MigrationRun, type MigrationRunResource, StartRequest } from '../migrations/resources.ts'
import { operation } from '../part.ts'
import { TenantNotFound, TenantState } from '../tenant/errors.ts'
import type { Tenants } from '../tenants.ts'
import { detach } from './transfer-wait.ts'

const byRun = z.object({ runId: z.uuid().meta({ description: 'Identifier of a migration run' }) })
const runId = { name: 'run', summary: 'id of the migration run' }

const getRun = operation({
  name: 'migrationRuns.get',
  method: 'GET',
  path: '/migration-runs/{runId}',
  summary: 'Read a migration run, with the number of storages by state',
  params: byRun,
  reply: MigrationRun,
  errors: [MigrationRunNotFound],
  command: { name: 'tenant:migrate:show', summary: 'Show a migration run', arguments: { runId } },
  handle: ({ migrations }, { params }) => migrations.background.get(params.runId),
})

const untilEnded: Waiting<MigrationRunResource> = {
  option: detach,
  isPending: ({ state }) => state === 'running',
  progress: (run) => `${number(finishedOf(run))} of ${number(run.total)}`,
  read: ({ id }, call) => call(getRun, { params: { runId: id } }),
  failure: ({ id, state, total, failed }) => {
    if (state === 'cancelled') return MigrationRunEnded(`Migration run "${id}" was cancelled.`)
    const text = `${number(failed)} of ${number(total)} failed. tenant:migrate:items ${id} --state failed lists them.`
    return failed > 0 ? MigrationsIncomplete(text) : undefined
  },
  work: async ({ migrations: { background } }: Tenants, { id }, { signal, show }) => {
    const working = background.work(id, { signal }).catch((error) => {
      if (!signal.aborted) throw error
    })
    await Promise.all([background.settled(id, signal, show), working])
  },
  interrupted: ({ id }) => `A worker continues the migration run. tenant:migrate:show ${id} shows its state.`,
}

export const migrationRunOperations = [
  operation({
    name: 'migrationRuns.list',
    method: 'GET',
    path: '/migration-runs',
    summary: 'List migration runs and rollbacks, the newest first',
    description: 'Also those of commands and of the host. The last 20 are kept.',
    query: z.strictObject(Page.shape),
    reply: pageOf(MigrationRun),
    command: {
      name: 'tenant:migrate:list',
      rows: ({ data }) =>
        data.map(({ id, direction, state, startedBy, total, done, failed, skipped, createdAt }) => {
          return { id, direction, state, startedBy, total, done, failed, skipped, createdAt }
        }),
    },
    handle: ({ migrations }, { query }) => migrations.background.list(query),
  }),
  getRun,
  operation({
    name: 'migrationRuns.items',
    method: 'GET',
    path: '/migration-runs/{runId}/items',
    summary: 'List the storages of a migration run, with their results',
    params: byRun,
    query: z.strictObject({ state: MigrationItem.shape.state.optional(), ...Page.shape }),
    reply: pageOf(MigrationItem),
    errors: [MigrationRunNotFound],
    command: {
      name: 'tenant:migrate:items',
      arguments: { runId },
      options: { state: 'only those in this state' },
      rows: ({ data }) =>
        data.map(({ tenantId, isolation, placement, state, migrations, attempts, error }) => {
          const id = tenantId ?? `${isolation}/${placement}`
          return { id, state, migrations, attempts, error: error && `${error.code}: ${error.message}` }
        }),
    },
    handle: ({ migrations }, { params, query }) => migrations.background.items(params.runId, query),
  }),
  operation({
    name: 'migrationRuns.start',
    method: 'POST',
    path: '/migration-runs',
    changesStorage: true,
    summary: 'Run pending migrations of tenants, by a worker',
    description:
      'A job runs the migrations of the process that responds, and continues in another worker after a restart. A worker with other ' +
      'migrations leaves the run to others. The same request joins an unfinished run. Without pending migrations the run has ended.',
    body: StartRequest,
    bodyOptional: true,
    reply: MigrationRun,
    status: 202,
    errors: [MigrationRunning, TenantNotFound, TenantState],
    command: {
      name: 'tenant:migrate:start',
      summary: 'Run pending migrations as a job that any worker continues',
      options: {
        tenantIds: { flags: '--tenant <id...>', summary: 'a tenant; default: all' },
        verify: { flags: '--verify', summary: 'query every storage, including those recorded as up to date' },
        retries: {
          flags: '--retries <count>',
          summary: 'attempts for a locked table or an unavailable server; default: 3',
          parse: countOrNone,
        },
        lockTimeoutMs: { flags: '--lock-timeout <ms>', summary: 'time limit of a lock; default: 10000', parse: count },
        stopAfterFailures: {
          flags: '--stop-after <count>',
          summary: 'stop after this number of failures; default: 1 % of the storages, at least 10',
          parse: count,
        },
      },
      wait: untilEnded,
    },
    handle: async ({ migrations }, { body }) => {
      const run = await migrations.background.start(body)
      return new Reply(202, run, { location: `/migration-runs/${run.id}` })
    },
    settled: ({ migrations }, { id }, signal) => migrations.background.settled(id, signal),
  }),
  operation({
    name: 'migrationRuns.cancel',
    method: 'POST',
    path: '/migration-runs/{runId}/cancel',
    changesStorage: false,
    summary: 'Cancel a migration run; it ends after the storages in progress',
    description:
      'Migrated storages keep their migrations. The run is `running` until the storages in progress have ended.',
    params: byRun,
    reply: MigrationRun,
    errors: [MigrationRunNotFound, MigrationRunEnded],
    command: { name: 'tenant:migrate:cancel', summary: 'Cancel a migration run', arguments: { runId } },
    handle: ({ migrations }, { params }) => migrations.background.cancel(params.runId),
  }),
]
