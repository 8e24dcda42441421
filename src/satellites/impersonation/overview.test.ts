import { expect, inject, test } from 'vitest'
import { installed, testTenancy } from '../../testing/base/tenancy.ts'
import { impersonation } from './index.ts'

test('the timeline has the impersonations of the tenant, page by page', async () => {
  const { tenancy, end } = await testTenancy(inject('postgresUrl'), { satellites: [impersonation()] })
  const { id } = await installed(tenancy, { name: 'Acme' })
  for (const userId of ['u-1', 'u-2', 'u-3']) {
    await tenancy.impersonation.start(id, { userId, reason: 'Ticket 4711', actor: { id: 'ann', name: 'Ann' } })
  }
  const { timelines } = tenancy.tenants.overview
  const first = await timelines.list(id, { limit: 2 })
  const second = await timelines.list(id, { limit: 2, cursor: first.nextCursor ?? '' })
  expect([...first.data, ...second.data]).toMatchObject(
    ['u-3', 'u-2', 'u-1'].map((user) => {
      return { kind: 'impersonation', actor: 'Ann', title: `Impersonation of user ${user} started` }
    }),
  )
  expect(second.nextCursor).toBeNull()
  await end()
})
