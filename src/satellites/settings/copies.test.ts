/** Copies of a tenant contain no settings: a clone starts without values, and a backup has no secret. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { secret, settings } from './index.ts'

const satellite = settings({ define: { 'mail.password': secret(z.string()), 'upload.mb': z.int().default(10) } })
let environment: TestEnvironment<[typeof satellite]>
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { satellites: [satellite] })
})
afterAll(() => environment?.end())

test('a clone starts without values, and a backup contains none', async () => {
  const { tenancy, transfers, archives } = environment
  await environment.tenant('acme', {}, ['a note of the tenant'])
  await tenancy.settings.set('acme', 'mail.password', 'hunter2')
  await tenancy.settings.set('acme', 'upload.mb', 20)
  await environment.done(await transfers.clone('acme', { id: 'copy', name: 'A copy' }))
  expect(await tenancy.settings.get('copy', 'mail.password')).toBeUndefined()
  expect(await tenancy.settings.get('copy', 'upload.mb')).toBe(10)
  await environment.done(await transfers.backups.create('acme'))
  const [archive = ''] = (await environment.files()).filter((name) => name.endsWith('.tar.gz'))
  const content = gunzipSync(await readFile(join(archives, archive))).toString('latin1')
  const { rows } = await tenancy.kernel.database.sql(
    `select secret from multitenancy.settings where secret is not null`,
  )
  expect(content).toContain('a note of the tenant')
  for (const text of ['hunter2', rows[0].secret, 'upload.mb']) expect(content).not.toContain(text)
})
