/** The admin API of erasures. */
import { z } from 'zod'
import { Reply, type Waiting } from '../../kernel/api/operation.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { part } from '../../kernel/part.ts'
import { TenantNotFound, TenantState } from '../tenant/errors.ts'
import { TenantId } from '../tenant/tenant.ts'
import { EraseRequest, Erasure } from './erasure.ts'
import type { Erasures } from './erasures.ts'
import { ConfirmationMismatch, ErasureNotFound } from './errors.ts'

const { operation } = part<Erasures>()
const byId = z.object({ id: TenantId })
const tenant = { id: 'id of the tenant' }

/** The lines of a report, or before its completion the state and the steps. */
const rows = ({ state, waitingFor, steps, report }: Erasure) =>
  report
    ? report.systems.map((line) => ({ ...line, kept: line.kept ?? '' }))
    : [{ state, waitingFor, steps: steps.map(({ name }) => name).join(' ') }]

const message = ({ report, signature }: Erasure): string | undefined => {
  if (!report) return undefined
  const expiring = report.expires.map(({ what, at }) => `  ${at ?? 'unknown time'}  ${what}`)
  const valid = signature?.isValid === null ? 'cannot be verified here' : signature?.isValid ? 'valid' : 'NOT VALID'
  return [`Expires later:`, ...expiring, `Signature (${signature?.key} key): ${valid}.`].join('\n')
}

export const getErasure = operation({
  name: 'erasures.get',
  method: 'GET',
  path: '/tenants/{id}/erasure',
  summary: 'Read the erasure of a tenant, with its signed report',
  params: byId,
  reply: Erasure,
  scope: 'erase',
  errors: [TenantNotFound, ErasureNotFound],
  command: {
    name: 'tenant:erasure:report',
    summary: 'Show the report of the erasure of a tenant',
    arguments: tenant,
    rows,
    message,
  },
  handle: (erasures, { params }) => erasures.get(params.id),
})

const completion: Waiting<Erasure> = {
  option: { flags: '--detach', summary: 'only start it; a running service carries it out' },
  isPending: ({ state }) => state !== 'completed',
  progress: ({ tenantId, steps }) => `erasing ${tenantId}: ${steps.at(-1)?.name ?? 'starting'}`,
  read: ({ tenantId }, call) => call(getErasure, { params: { id: tenantId } }),
  work: async (erasures: Erasures, { tenantId }, { signal, show }) => {
    const isDone = ({ state, waitingFor }: Erasure) =>
      state === 'completed' || (state === 'pending' && waitingFor !== null)
    await Promise.all([erasures.work(tenantId, { signal }), erasures.settled(tenantId, signal, { isDone, show })])
  },
  failure: ({ tenantId, state, waitingFor }) =>
    state === 'completed'
      ? undefined
      : DependencyUnavailable(
          `The erasure of tenant "${tenantId}" waits for ${waitingFor ?? 'a worker'}. A running service continues it.`,
        ),
  interrupted: ({ tenantId }) =>
    `The erasure of tenant "${tenantId}" continues in a running service. tenant:erasure:report ${tenantId} shows its state.`,
}

export const eraseTenant = operation({
  name: 'tenants.erase',
  method: 'POST',
  path: '/tenants/{id}/erase',
  changesStorage: true,
  summary: 'Erase a tenant immediately and permanently, in any state',
  description:
    'Deletes the tenant, then a job removes its data in all systems, searches them again and signs a report. There is no restoration. ' +
    'An unavailable system keeps the erasure `pending`, and `waitingFor` names it.',
  params: byId,
  body: EraseRequest,
  reply: Erasure,
  status: 202,
  alsoStatus: [200],
  scope: 'erase',
  errors: [TenantNotFound, TenantState, ConfirmationMismatch],
  command: {
    name: 'tenant:purge',
    arguments: tenant,
    options: {
      confirm: 'with --now: the id again',
      reason: 'with --now: reason in the report',
      billing: {
        flags: '--billing <choice>',
        summary: 'with --now: keep (default) or delete the customer at the payment provider',
      },
    },
    rows,
    message,
    wait: completion,
  },
  handle: async (erasures, { params: { id }, body }) => {
    const erasure = await erasures.request(id, body)
    return new Reply(erasure.state === 'completed' ? 200 : 202, erasure, { location: `/tenants/${id}/erasure` })
  },
  settled: (erasures, { tenantId }, signal) => erasures.settled(tenantId, signal),
})

export const operations = [eraseTenant, getErasure]
