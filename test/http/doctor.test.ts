/** GET /doctor lists findings for readers, with 503 if a finding is an error. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { installed } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'

let api: Opened
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'))
  for (const id of ['acme', 'globex']) await installed(api.tenancy, { id, name: id })
})
afterAll(() => api.end())

test('GET /doctor returns 200 without findings or with warnings, and 503 with an error, which is listed first', async () => {
  // Requires only the scope read.
  expect(await api.call('GET', '/doctor', { who: 'read' })).toMatchObject({
    status: 200,
    json: { status: 'ok', checks: [] },
  })

  const { database } = api.tenancy.kernel
  await database.sql(`update multitenancy.tenants set status = 'failed' where id = 'acme'`)
  const warned = await api.call('GET', '/doctor')
  expect(warned).toMatchObject({ status: 200, json: { status: 'warn', checks: [{ code: 'tenants.failed' }] } })
  await database.sql('drop schema t1_globex cascade')
  const { status, json } = await api.call('GET', '/doctor')
  expect(status).toBe(503)
  expect(json).toEqual({
    status: 'error',
    checks: [
      {
        name: 'storage',
        severity: 'error',
        code: 'storage.missing',
        message: 'the storage "t1_globex" on "main" does not exist',
        remedy: expect.stringContaining('tenant:backup:restore'),
        fixable: false,
        tenantId: 'globex',
      },
      expect.objectContaining({ severity: 'warn', code: 'tenants.failed', tenantId: 'acme' }),
    ],
    counts: { error: 1, warn: 1, info: 0 },
  })
})
