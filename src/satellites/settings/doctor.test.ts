/** Findings of settings, and the change of the application key. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { reencryptColumn } from '../../kernel/database/re-encrypt.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { secret, settings } from './index.ts'

const OTHER_APP_KEY = Buffer.alloc(32, 8).toString('base64')
const satellite = settings({ define: { 'mail.password': secret(z.string()), 'upload.mb': z.int().default(10) } })
const [column] = satellite.encryptedColumns ?? []

let opened: TestTenancy<[typeof satellite]>
let tenancy: Tenancy<[typeof satellite]>
beforeEach(async () => {
  opened = await testTenancy(inject('postgresUrl'), { satellites: [satellite], role: 'api' })
  tenancy = opened.tenancy
  for (const id of ['acme', 'globex']) {
    await tenancy.tenants.create({ id, name: id })
    await tenancy.settings.set(id, 'mail.password', `password of ${id}`)
    await tenancy.settings.set(id, 'upload.mb', id.length)
  }
})
afterEach(() => opened.end())

const findings = async ({ doctor }: Pick<Tenancy, 'doctor'>) =>
  (await doctor.examine()).checks.filter(({ name }) => name === 'settings')

test('finds nothing if all values are usable', async () => {
  expect(await findings(tenancy)).toEqual([])
})

test('finds secrets of a former application key until they are encrypted again', async () => {
  // As if the running process were dead: it does not know the new key, and would prevent the start.
  await tenancy.kernel.database.sql(`update multitenancy.processes set heartbeat_at = now() - interval '1 minute'`)
  const later = await opened.open({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] })
  expect(await findings(later)).toMatchObject([
    { severity: 'info', code: 'settings.old-key', message: expect.stringContaining('and 1 more is encrypted with') },
  ])
  const { database, secrets } = later.kernel
  const result = await reencryptColumn(database, secrets, column as never, AbortSignal.timeout(10_000))
  expect(result).toEqual({ table: 'settings', column: 'secret', resealed: 2, current: 0, failed: 0 })
  expect(await findings(later)).toEqual([])
  expect(await later.settings.get('globex', 'mail.password')).toBe('password of globex')
  expect(await findings(tenancy)).toMatchObject([{ severity: 'error', code: 'settings.lost-key' }])
})

test('finds values that do not match, and values without a definition, once for each setting', async () => {
  const later = await opened.open({ satellites: [settings({ define: { 'upload.mb': z.string() } })] as any })
  expect(await findings(later)).toMatchObject([
    { severity: 'error', code: 'settings.mismatch', message: expect.stringContaining('"upload.mb" of tenant') },
    { severity: 'info', code: 'settings.undefined', message: expect.stringContaining('and 1 more has no definition') },
  ])
})

test('examines each row of a key, over several pages, and counts only those with the fault', async () => {
  const { database } = tenancy.kernel
  await database.sql(
    `insert into multitenancy.tenants select (jsonb_populate_record(tenant, jsonb_build_object('id', 'x' || n, 'locator', 'x' || n))).*
     from multitenancy.tenants tenant, generate_series(1, 600) n where tenant.id = 'acme'`,
  )
  // Bound to another tenant, so that only the secret of acme can be decrypted.
  await database.sql(
    `insert into multitenancy.settings select 'x' || n, name, value, secret, updated_at
     from multitenancy.settings, generate_series(1, 600) n where tenant_id = 'acme'`,
  )
  expect(await findings(tenancy)).toMatchObject([
    { severity: 'error', code: 'settings.lost-key', message: expect.stringContaining('and 599 more cannot be') },
  ])
})
