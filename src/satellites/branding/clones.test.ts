/** A clone has a copy of its source's branding. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import branding from './index.ts'

let environment: TestEnvironment<[ReturnType<typeof branding>]>
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { satellites: [branding()] })
})
afterAll(() => environment?.end())

test("a clone has its source's branding, and keeps it when the source changes", async () => {
  const { tenancy, transfers } = environment
  await environment.tenant('acme')
  await tenancy.branding.update('acme', { displayName: 'Acme', primaryColor: '#ff0000' })
  await environment.done(await transfers.clone('acme', { id: 'copy', name: 'A copy' }))
  expect(await tenancy.branding.get('copy')).toEqual(await tenancy.branding.get('acme'))
  await tenancy.branding.update('acme', { displayName: 'Acme & Co.' })
  expect(await tenancy.branding.get('copy')).toMatchObject({ displayName: 'Acme', primaryColor: '#ff0000' })
})

test('a clone of a tenant without branding has no branding', async () => {
  await environment.tenant('plain')
  await environment.done(await environment.transfers.clone('plain', { id: 'plain-copy', name: 'A copy' }))
  const { rows } = await environment.tenancy.kernel.database.sql(
    `select from multitenancy.branding where tenant_id = 'plain-copy'`,
  )
  expect(rows).toEqual([])
})
