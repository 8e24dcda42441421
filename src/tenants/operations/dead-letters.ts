/** Dead letters of all jobs, also of those without a tenant. */
import { z } from 'zod'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { DeadLetter, DeadLetterDetail, DeadLetterNotFound, DeadLetterOrphaned } from '../dead-letters.ts'
import { operation } from '../part.ts'
import { TenantId } from '../tenant/tenant.ts'

const byId = z.object({ deadLetterId: z.uuid().meta({ description: 'Identifier of a dead letter' }) })
const letter = { deadLetterId: { name: 'letter', summary: 'id of the dead letter' } }

export const deadLetterOperations = [
  operation({
    name: 'deadLetters.list',
    method: 'GET',
    path: '/dead-letters',
    summary: 'List jobs that failed permanently or have no handler, the newest first',
    query: z.strictObject({
      queue: z.string().min(1).max(200).optional().meta({ description: 'Only of this queue' }),
      tenantId: TenantId.optional().meta({ description: 'Only of this tenant' }),
      ...Page.shape,
    }),
    reply: pageOf(DeadLetter),
    command: {
      name: 'dead-letter:list',
      options: { queue: 'only of this queue', tenantId: { flags: '--tenant <id>', summary: 'only of this tenant' } },
    },
    handle: ({ deadLetters }, { query }) => deadLetters.list(query),
  }),
  operation({
    name: 'deadLetters.get',
    method: 'GET',
    path: '/dead-letters/{deadLetterId}',
    summary: 'Read one dead letter, with the data of its job',
    params: byId,
    reply: DeadLetterDetail,
    errors: [DeadLetterNotFound],
    command: { name: 'dead-letter:show', summary: 'Show a dead letter, with the data of its job', arguments: letter },
    handle: ({ deadLetters }, { params }) => deadLetters.get(params.deadLetterId),
  }),
  operation({
    name: 'deadLetters.retry',
    method: 'POST',
    path: '/dead-letters/{deadLetterId}/retry',
    changesStorage: false,
    summary: 'Send the job of a dead letter again, with all attempts',
    description: 'The dead letter is removed. If the job fails permanently again, it becomes a new one.',
    params: byId,
    reply: z.void(),
    errors: [DeadLetterNotFound, DeadLetterOrphaned],
    command: {
      name: 'dead-letter:retry',
      arguments: letter,
      record: (_, { params }) => ({ id: params.deadLetterId, retried: true }),
    },
    handle: ({ deadLetters }, { params }) => deadLetters.retry(params.deadLetterId),
  }),
  operation({
    name: 'deadLetters.delete',
    method: 'DELETE',
    path: '/dead-letters/{deadLetterId}',
    changesStorage: false,
    summary: 'Delete a dead letter; its job never runs',
    params: byId,
    reply: z.void(),
    errors: [DeadLetterNotFound],
    command: {
      name: 'dead-letter:delete',
      arguments: letter,
      question: ({ params }) => `Delete the dead letter ${params.deadLetterId}? Its job never runs.`,
      record: (_, { params }) => ({ id: params.deadLetterId, deleted: true }),
    },
    handle: ({ deadLetters }, { params }) => deadLetters.delete(params.deadLetterId),
  }),
]
