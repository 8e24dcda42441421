/** A stored response of an idempotent request after a rotation of the application key. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { TEST_APP_KEY, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Api, apiOf } from '../contract/calls.ts'

const NEW_KEY = Buffer.alloc(32, 'the new key').toString('base64')

let made: TestTenancy<[]>
beforeAll(async () => {
  made = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => made.end())

const open = (oldAppKeys: string[] = []) => made.open({ appKey: NEW_KEY, oldAppKeys, isolation: [schemaPg()] })
const create = ({ call }: Api, name = 'Acme') =>
  call('POST', '/tenants', { body: { name }, headers: { 'idempotency-key': 'one' } })

test('is returned while its key is configured, and is a conflict without a second effect afterwards', async () => {
  const first = await create(apiOf(made.tenancy))
  expect(first.status).toBe(201)
  await made.tenancy.stop() // it does not know the new key
  const rotated = apiOf(await open([TEST_APP_KEY]))
  expect(await create(rotated)).toMatchObject({ status: 201, json: first.json })

  const removed = apiOf(await open())
  expect(await create(removed)).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_RESPONSE_LOST' } })
  expect(await create(removed, 'Other')).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_MISMATCH' } })
  expect((await removed.call('GET', '/tenants')).json.data).toHaveLength(1)
})
