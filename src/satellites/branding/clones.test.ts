/** A clone has the brand of the tenant that it was made from, as a brand of its own. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openWorld, type World } from '../../../test/support/two-servers.ts'
import branding from './index.ts'

let world: World<[ReturnType<typeof branding>]>
beforeAll(async () => {
  world = await openWorld(inject('postgresUrl'), { satellites: [branding()] })
})
afterAll(() => world?.end())

test('a clone has the brand of its origin, and keeps it whatever becomes of that', async () => {
  const { tenancy, transfers } = world
  await world.tenant('acme')
  await tenancy.branding.update('acme', { displayName: 'Acme', primaryColor: '#ff0000' })
  await world.done(await transfers.clone('acme', { id: 'copy', name: 'A copy' }))
  expect(await tenancy.branding.get('copy')).toEqual(await tenancy.branding.get('acme'))
  await tenancy.branding.update('acme', { displayName: 'Acme & Co.' })
  expect(await tenancy.branding.get('copy')).toMatchObject({ displayName: 'Acme', primaryColor: '#ff0000' })
})

test('a clone of a tenant without a brand has none', async () => {
  await world.tenant('plain')
  await world.done(await world.transfers.clone('plain', { id: 'plain-copy', name: 'A copy' }))
  const { rows } = await world.tenancy.kernel.database.sql(
    `select from multitenancy.branding where tenant_id = 'plain-copy'`,
  )
  expect(rows).toEqual([])
})
