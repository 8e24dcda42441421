/** A repeated POST with the same `Idempotency-Key` has no second effect; on every host framework. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, PREFIX, type Served, send, served } from './served.ts'

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'), [], {
    adminTokens: [
      { name: 'admin', token: ADMIN['x-admin-token'] },
      { name: 'other', token: 'other-token-0123456789' },
    ],
  })
})
afterAll(() => tenancy.stop())

describe.each(Object.entries(hosts))('%s', (name, start) => {
  let host: Host
  beforeAll(async () => {
    host = await start(tenancy.http)
  })
  afterAll(() => host.close())

  const post = (key: string, body: unknown, headers: Record<string, string | string[]> = {}) =>
    send(host.origin, `POST ${PREFIX}/tenants`, { headers: { ...ADMIN, 'idempotency-key': key, ...headers }, body })
  const named = async (tenant: string) =>
    (await send(host.origin, `GET ${PREFIX}/tenants?q=${tenant}`, { headers: ADMIN })).json.data

  test('a repeated request returns the first response', async () => {
    const first = await post(`repeat-${name}`, { name: `repeat-${name}` })
    const second = await post(`repeat-${name}`, { name: `repeat-${name}` })
    expect(first.status).toBe(201)
    expect(first.headers['idempotency-replayed']).toBeUndefined()
    expect(second).toMatchObject({
      status: 201,
      body: first.body,
      headers: { 'idempotency-replayed': 'true', location: first.headers.location },
    })
    expect(second.headers['x-request-id']).not.toBe(first.headers['x-request-id'])
    expect(await named(`repeat-${name}`)).toHaveLength(1)
  })

  test('the stored response is the one after `Prefer: wait`', async () => {
    const body = { name: `wait-${name}` }
    const first = await post(`wait-${name}`, body, { prefer: 'wait=20' })
    expect(first.json.status).toBe('active')
    expect((await post(`wait-${name}`, body)).body).toBe(first.body)
  })

  test('a rejection is stored', async () => {
    const body = { id: `taken-${name}`, name: 'Taken' }
    await post(`first-${name}`, body)
    const refused = await post(`second-${name}`, body)
    const again = await post(`second-${name}`, body)
    expect(refused).toMatchObject({ status: 409, json: { code: 'E_TENANT_EXISTS' } })
    expect(again).toMatchObject({ status: 409, headers: { 'idempotency-replayed': 'true' } })
    expect(again.json).toEqual({ ...refused.json, requestId: again.headers['x-request-id'] })
  })

  test('another body with the same key is a mismatch', async () => {
    await post(`mismatch-${name}`, { name: `mismatch-${name}` })
    const other = await post(`mismatch-${name}`, { name: `mismatch-${name}-2` })
    expect(other).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_MISMATCH' } })
    expect(await named(`mismatch-${name}`)).toHaveLength(1)
  })

  test('keys of different tokens are independent', async () => {
    const body = { name: `token-${name}` }
    await post(`token-${name}`, body)
    const other = await post(`token-${name}`, body, { 'x-admin-token': 'other-token-0123456789' })
    expect(other.headers['idempotency-replayed']).toBeUndefined()
    expect(await named(`token-${name}`)).toHaveLength(2)
  })

  test('of twenty concurrent requests, one creates the tenant', async () => {
    const body = { name: `race-${name}` }
    const responses = await Promise.all(Array.from({ length: 20 }, () => post(`race-${name}`, body)))
    const made = responses.filter(({ status, headers }) => status === 201 && !headers['idempotency-replayed'])
    expect(made).toHaveLength(1)
    for (const { status, headers, json, body } of responses) {
      if (status === 201) expect(body).toBe(made[0]?.body)
      else
        expect({ status, code: json.code, headers }).toMatchObject({
          status: 409,
          code: 'E_IDEMPOTENCY_IN_PROGRESS',
          headers: { 'retry-after': expect.stringMatching(/^([1-9]|10)$/) }, // the deadline of the first one
        })
    }
    expect(await named(`race-${name}`)).toHaveLength(1)
    expect((await post(`race-${name}`, body)).body).toBe(made[0]?.body)
  })

  test('an invalid key returns 400', async () => {
    const keys = ['', 'a b', 'x'.repeat(256), 'ä', ['a', 'b']]
    for (const key of keys) {
      const response = await post('', { name: `bad-key-${name}` }, { 'idempotency-key': key })
      expect(response).toMatchObject({ status: 400, json: { errors: [{ path: 'Idempotency-Key' }] } })
    }
    expect(await named(`bad-key-${name}`)).toEqual([])
  })
})
