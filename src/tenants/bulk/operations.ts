/** The admin API of bulk jobs, and their commands. */
import { z } from 'zod'
import { Reply, type Waiting } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { number } from '../../kernel/base/format.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { part } from '../../kernel/part.ts'
import { detach } from '../operations/transfer-wait.ts'
import { PlanNotFound, PlanResolvedByHost } from '../tenant/errors.ts'
import type { Bulk } from './bulk.ts'
import { BULK_OPERATIONS } from './input.ts'
import { BulkEnded, BulkJob, BulkNotFound, BulkRequest, BulkResult, hasEnded } from './requests.ts'

const { operation } = part<Bulk>()
const byBulk = z.object({ bulkId: z.uuid().meta({ description: 'Identifier of a bulk job' }) })
const bulkId = { name: 'bulk', summary: 'id of the bulk job' }

const recordOf = ({ input, failure, ...job }: BulkJob) => ({ ...job, ...input, failure: failure?.message ?? null })

const getBulk = operation({
  name: 'bulk.get',
  method: 'GET',
  path: '/bulk/{bulkId}',
  summary: 'Read a bulk job, with the number of tenants by result',
  params: byBulk,
  reply: BulkJob,
  errors: [BulkNotFound],
  command: { name: 'tenant:bulk:show', summary: 'Show a bulk job', arguments: { bulkId }, record: recordOf },
  handle: (bulk, { params }) => bulk.get(params.bulkId),
})

const untilEnded: Waiting<BulkJob> = {
  option: detach,
  isPending: (job) => !hasEnded(job),
  progress: ({ total, pending, operation }) => `${number(total - pending)} of ${number(total)}: ${operation}`,
  read: ({ id }, call) => call(getBulk, { params: { bulkId: id } }),
  failure: ({ id, failed, state, failure }) => {
    if (state === 'cancelled') return BulkEnded(failure?.message ?? `Bulk job "${id}" was cancelled.`)
    const text = `${number(failed)} of the tenants failed. tenant:bulk:results ${id} --state failed lists them.`
    return failed > 0 ? FindingsStand(text) : undefined
  },
  work: async (bulk: Bulk, { id }, { signal, show }) => {
    const working = bulk.work(id, { signal }).catch((error) => {
      if (!signal.aborted) throw error
    })
    await Promise.all([bulk.settled(id, signal, show), working])
  },
  interrupted: ({ id }) =>
    `The bulk job may still run, and a worker continues it. tenant:bulk:show ${id} shows its state.`,
}

export const operations = [
  operation({
    name: 'bulk.start',
    method: 'POST',
    path: '/bulk',
    changesStorage: true,
    summary: 'Carry out one operation for up to 10,000 tenants, or predict its results',
    description:
      'The token must also permit the operation, and `tenants.list` for `filter`. A job carries it out for one tenant after the other, and ' +
      'continues after a failure, also in another process. Each change has an audit entry with the caller and this request. The job ends if the ' +
      'token is revoked. With `dryRun` nothing is changed, and the job has ended: its results are predictions.',
    body: BulkRequest,
    reply: BulkJob,
    status: 202,
    errors: [PlanNotFound, PlanResolvedByHost],
    command: {
      name: 'tenant:bulk',
      summary: 'Carry out one operation for many tenants, as a job that any process continues',
      arguments: { operation: `one of ${BULK_OPERATIONS.join(', ')}` },
      options: {
        tenantIds: { flags: '--tenant <id...>', summary: 'a tenant' },
        filter: {
          flags: '--filter <query>',
          summary: 'in place of tenants: a query of tenant:list, such as status=active&q=eu-',
        },
        dryRun: { flags: '--dry-run', summary: 'only predict the results' },
        plan: { flags: '--plan <plan>', summary: 'of tenants.setPlan' },
        message: { flags: '--message <text>', summary: 'of tenants.enterMaintenance' },
        retryAfterSeconds: { flags: '--retry-after <seconds>', summary: 'of tenants.enterMaintenance: time to retry' },
      },
      body: ({ filter, ...body }) =>
        filter === undefined ? body : { ...body, filter: Object.fromEntries(new URLSearchParams(filter)) },
      question: ({ body }) => {
        if (body.dryRun) return undefined
        const count = body.tenantIds?.length
        return `Carry out ${body.operation} for ${count === undefined ? 'all tenants that match' : `${number(count)} tenants`}?`
      },
      wait: untilEnded,
      record: recordOf,
    },
    handle: async (bulk, { body }) => {
      const job = await bulk.start(body)
      return new Reply(202, job, { location: `/bulk/${job.id}` })
    },
    settled: (bulk, { id }, signal) => bulk.settled(id, signal),
  }),
  operation({
    name: 'bulk.list',
    method: 'GET',
    path: '/bulk',
    summary: 'List bulk jobs, the newest first',
    description: 'Jobs that ended 90 days ago are deleted, dry runs after one day.',
    query: z.strictObject(Page.shape),
    reply: pageOf(BulkJob),
    command: {
      name: 'tenant:bulk:list',
      rows: ({ data }) =>
        data.map(({ id, operation, dryRun, state, startedBy, total, done, unchanged, failed, createdAt }) => {
          return { id, operation, dryRun, state, startedBy, total, done, unchanged, failed, createdAt }
        }),
    },
    handle: (bulk, { query }) => bulk.list(query),
  }),
  getBulk,
  operation({
    name: 'bulk.listResults',
    method: 'GET',
    path: '/bulk/{bulkId}/results',
    summary: 'List the results of a bulk job by tenant, in the order of ids',
    params: byBulk,
    query: z.strictObject({ state: BulkResult.shape.state.optional(), ...Page.shape }),
    reply: pageOf(BulkResult),
    errors: [BulkNotFound],
    command: {
      name: 'tenant:bulk:results',
      arguments: { bulkId },
      options: { state: 'only those in this state' },
    },
    handle: (bulk, { params, query }) => bulk.results(params.bulkId, query),
  }),
  operation({
    name: 'bulk.cancel',
    method: 'DELETE',
    path: '/bulk/{bulkId}',
    changesStorage: false,
    summary: 'Cancel a bulk job that has not ended; its changes remain',
    params: byBulk,
    reply: BulkJob,
    errors: [BulkNotFound, BulkEnded],
    command: {
      name: 'tenant:bulk:cancel',
      arguments: { bulkId },
      record: recordOf,
    },
    handle: (bulk, { params }) => bulk.cancel(params.bulkId),
  }),
]
