import { expectThat } from '../expectations.ts'
import { act, heading } from '../print.ts'
import type { Tour } from './chapter.ts'

const PATH = '/tenants/baltic-freight/audit-logs'

export async function audit({ api }: Tour): Promise<void> {
  heading('Read the audit log of that tenant')
  const { body } = await api.call('GET', PATH, {
    expect: ['200', '404 E_NOT_FOUND', '404 E_SATELLITE_DISABLED'],
    also: ({ body }) =>
      body.data ? `${body.data.length} entries` : 'this service does not have the satellite audit-logs',
  })
  if (!body.data) return
  for (const { createdAt, action, actor, outcome } of body.data) {
    act(`${createdAt.slice(11, 19)}  ${action}`, `by ${actor.type} ${actor.name}, ${outcome}`)
  }
  const actions = body.data.map(({ action }: { action: string }) => action)
  expectThat(
    actions.includes('tenants.suspend') && actions.at(-1) === 'tenants.create',
    'every change has an audit entry',
  )
}
