import { TenantInMaintenance, TenantIsSuspended, TenantNotFound } from 'tenantry'
import { eventually, expectRejection, expectThat } from '../expectations.ts'
import { act, heading, say } from '../print.ts'
import type { Tour } from './chapter.ts'

const ID = 'baltic-freight'
const PATH = `/tenants/${ID}`
const HANDLE = `tenancy.tenant('${ID}')`

export async function lifecycle(tour: Tour): Promise<void> {
  const { api, tenancy } = tour
  heading('Manage a tenant: suspend, maintain, delete, restore, change its plan')

  await api.call('PUT', `${PATH}/suspend`, { expect: '200 suspended' })
  await expectRejection(HANDLE, TenantIsSuspended, () => tenancy.tenant(ID))
  await api.call('PUT', `${PATH}/activate`, { expect: '200 active' })
  await expectItsNotes(tour)

  const words = { message: 'We move your data to a faster server.', retryAfterSeconds: 120 }
  await api.call('PUT', `${PATH}/maintenance`, { body: words, expect: '200 active' })
  await expectRejection(HANDLE, TenantInMaintenance, () => tenancy.tenant(ID))
  await api.call('DELETE', `${PATH}/maintenance`, { expect: '200 active' })
  await expectItsNotes(tour)

  const until = ({ body }: { body: any }) => `kept until ${body.purgeAt.slice(0, 10)}`
  await api.call('DELETE', PATH, { expect: '200 deleted', also: until })
  await expectRejection(HANDLE, TenantNotFound, () => tenancy.tenant(ID))
  await api.call('PUT', `${PATH}/activate`, { expect: '409 E_TENANT_STATE', also: ({ body }) => body.detail })
  await api.call('PUT', `${PATH}/restore`, { expect: '200 active' })
  await expectItsNotes(tour)

  const plan = ({ body }: { body: any }) => `plan ${body.metadata.plan}`
  await api.call('PUT', `${PATH}/plans/enterprise`, { expect: '200 active', also: plan })
  await api.call('PUT', `${PATH}/plans/platinum`, { expect: '404 E_PLAN_NOT_FOUND' })

  say('Metadata is a JSON merge patch: absent members stay, null removes.')
  const { body } = await api.call('PATCH', PATH, {
    body: { metadata: { seats: 60, features: { customs: true, tracking: null } } },
    expect: '200 active',
    also: ({ body }) => JSON.stringify(body.metadata.features),
  })
  expectThat(body.metadata.plan === 'enterprise' && body.metadata.country === 'EE', 'the other metadata is unchanged')
}

async function expectItsNotes({ tenancy }: Tour): Promise<void> {
  const { db } = await eventually(() => tenancy.tenant(ID))
  const notes = await db.selectFrom('notes').select('id').execute()
  act(HANDLE, `its ${notes.length} notes are unchanged`)
  expectThat(notes.length === 2, 'the restored tenant has all its rows')
}
