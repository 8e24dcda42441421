/** A clone has copies of its source's flags. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import featureFlags from './index.ts'

let environment: TestEnvironment<[ReturnType<typeof featureFlags>]>
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { satellites: [featureFlags()] })
})
afterAll(() => environment?.end())

test("a clone has its source's flags, and keeps them when those change", async () => {
  const { featureFlags: flags } = environment.tenancy
  await environment.tenant('acme')
  await flags.set('acme', 'on', { enabled: true })
  await flags.set('acme', 'half', { enabled: true, rolloutPercent: 50, bucketKey: 'userId' })
  expect(await flags.isEnabled('on', { tenantId: 'copy' })).toBe(false)
  await environment.done(await environment.transfers.clone('acme', { id: 'copy', name: 'A copy' }))
  expect(await flags.isEnabled('on', { tenantId: 'copy' })).toBe(true)
  const settingsOf = async (id: string) =>
    (await flags.list(id)).data.map(({ key, enabled, rolloutPercent, bucketKey }) => ({
      key,
      enabled,
      rolloutPercent,
      bucketKey,
    }))
  expect(await settingsOf('copy')).toEqual(await settingsOf('acme'))
  const [one, other] = [await flags.list('acme'), await flags.list('copy')]
  expect(other.data.map(({ id }) => id)).not.toEqual(one.data.map(({ id }) => id))
  await flags.delete('acme', 'on')
  expect(await flags.isEnabled('on', { tenantId: 'copy' })).toBe(true)
})

test('a clone of a tenant without flags has no flags', async () => {
  await environment.tenant('plain')
  await environment.done(await environment.transfers.clone('plain', { id: 'plain-copy', name: 'A copy' }))
  expect((await environment.tenancy.featureFlags.list('plain-copy')).data).toEqual([])
})
