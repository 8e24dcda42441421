/** Operations on failed entries of the outbox, and for programs that post with their own connection. */
import { z } from 'zod'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { part } from '../../kernel/part.ts'
import { TenantNotFound } from '../tenant/errors.ts'
import { TenantId } from '../tenant/tenant.ts'
import { FailedEntry, RetriedEntries } from './failed-entries.ts'
import type { Outbox } from './outbox.ts'

const { operation } = part<Outbox>()

const byId = z.object({ id: TenantId })
const tenantId = TenantId.optional().meta({ description: 'Only of this tenant' })
const tenantOption = { flags: '--tenant <id>', summary: 'only of this tenant' }

export const operations = [
  operation({
    name: 'outbox.list',
    method: 'GET',
    path: '/outbox/failed',
    summary: 'List entries of the outbox that could not be applied, the last failed first',
    query: z.strictObject({ tenantId, ...Page.shape }),
    reply: pageOf(FailedEntry),
    command: { name: 'outbox:list', options: { tenantId: tenantOption } },
    handle: ({ failed }, { query }) => failed.list(query),
  }),
  operation({
    name: 'outbox.mark',
    method: 'POST',
    path: '/tenants/{id}/outbox/mark',
    summary: 'Announce a transaction with entries, by a program with its own connection',
    description:
      'Needed with database-pg, at most 20 seconds before `tenantry.post`: workers look only at marked databases.',
    params: byId,
    reply: z.void(),
    errors: [TenantNotFound],
    handle: (outbox, { params }) => outbox.mark(params.id),
  }),
  operation({
    name: 'outbox.relay',
    method: 'POST',
    path: '/tenants/{id}/outbox/relay',
    summary: 'Apply the entries of a program with its own connection now',
    description:
      'Call it after COMMIT. Otherwise, workers apply the entries within two seconds, or with database-pg within 40.',
    params: byId,
    reply: z.void(),
    errors: [TenantNotFound],
    handle: (outbox, { params }) => outbox.relay(params.id),
  }),
  operation({
    name: 'outbox.retry',
    method: 'POST',
    path: '/outbox/retry',
    summary: 'Apply failed entries of the outbox again',
    description:
      'Safe to run again: each entry is applied once. An entry that fails again stays, with its new error. An entry that was stored because it is older than 35 days may have been applied before, and is applied only with its id.',
    body: z.strictObject({ tenantId, id: z.uuid().optional().meta({ description: 'Only this entry' }) }),
    reply: RetriedEntries,
    command: {
      name: 'outbox:retry',
      options: { tenantId: tenantOption, id: { flags: '--id <uuid>', summary: 'only this entry' } },
    },
    handle: ({ failed }, { body }) => failed.retry(body),
  }),
]
