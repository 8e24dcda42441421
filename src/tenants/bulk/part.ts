/** Bulk jobs as a part of a tenancy. */
import { commandsOf } from '../../kernel/api/projection.ts'
import { handles } from '../../kernel/jobs/jobs.ts'
import type { Part } from '../../kernel/part-definition.ts'
import { Bulk } from './bulk.ts'
import { RecoverBulk, RunBulk } from './job-types.ts'
import { operations } from './operations.ts'
import { tables } from './tables.ts'
import type { WorkDependencies } from './worker.ts'

export const bulkPart: Part<'bulk', Bulk, Omit<WorkDependencies, 'kernel'>> = {
  name: 'bulk',
  tables,
  tenantTables: ['bulk_items'],
  service: (kernel, { tenants, tokens }) => new Bulk({ kernel, tenants, tokens }),
  operations,
  commands: commandsOf(operations),
  jobs: [
    handles(RunBulk, (bulk: Bulk, { bulkId }, attempt) => bulk.work(bulkId, attempt)),
    handles(RecoverBulk, (bulk: Bulk) => bulk.recover()),
  ],
  schedule: [{ type: RecoverBulk, cron: '* * * * *' }],
}
