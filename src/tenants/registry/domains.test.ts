import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenants } from '../tenants.ts'

const DAY_MS = 86_400_000
const TAKEN = { code: 'E_DOMAIN_TAKEN', status: 409 }

let opened: TestTenancy<[]>
let tenants: Tenants
let clock: FakeClock

beforeAll(async () => {
  clock = fakeClock()
  opened = await testTenancy(inject('postgresUrl'), { clock })
  tenants = opened.tenancy.tenants
})
afterAll(() => opened.end())

test.each([
  ['capitals and a trailing dot', 'Shop.Example.COM.', 'shop.example.com'],
  ['umlauts', 'bücher.example', 'xn--bcher-kva.example'],
  ['surrounding spaces', '  spaced.example ', 'spaced.example'],
  ['a single label', 'localhost', 'localhost'],
])('stores a domain with %s in its canonical form', async (_, given, kept) => {
  const { domains } = await tenants.create({ name: 'x', domains: [given] })
  expect(domains).toEqual([kept])
  await expect(tenants.create({ name: 'y', domains: [kept] })).rejects.toMatchObject(TAKEN)
})

test.each([
  '',
  '.',
  'a..b',
  '-a.example',
  'a_b.example',
  '127.0.0.1',
  'http://a.example',
  'a.example:80',
  'a.example/b',
  'a.example?b',
  'a.example／b',
  'a@b.example',
  'a.example%2f',
  '0x7f.1',
  '*.a.example',
  `${'a'.repeat(64)}.example`,
])('rejects "%s" as a domain', async (domain) => {
  await expect(tenants.create({ name: 'x', domains: [domain] })).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    extras: { errors: [{ path: 'domains.0' }] },
  })
})

test('rejects the same domain twice in one request in two spellings', async () => {
  const twice = tenants.create({ name: 'x', domains: ['twice.example', 'TWICE.example.'] })
  await expect(twice).rejects.toMatchObject({ status: 400, extras: { errors: [{ path: 'domains' }] } })
})

test('a domain can be moved after its owner has released it, and an update replaces the whole list', async () => {
  const { id: a } = await tenants.create({ name: 'a', domains: ['one.example', 'two.example'] })
  const { id: b } = await tenants.create({ name: 'b' })
  await expect(tenants.update(b, { domains: ['two.example'] })).rejects.toMatchObject(TAKEN)
  expect((await tenants.get(b)).domains).toEqual([])
  expect((await tenants.update(a, { domains: ['three.example', 'one.example'] })).domains).toEqual([
    'three.example',
    'one.example',
  ])
  expect((await tenants.update(b, { domains: ['two.example'] })).domains).toEqual(['two.example'])
  await tenants.update(a, { domains: [] })
  expect((await tenants.update(b, { domains: ['one.example', 'three.example'] })).domains).toHaveLength(2)
})

test('a rejected domain rolls back the creation of its tenant', async () => {
  await tenants.create({ name: 'owner', domains: ['wanted.example'] })
  const late = tenants.create({ id: 'late', name: 'late', domains: ['free.example', 'wanted.example'] })
  await expect(late).rejects.toMatchObject(TAKEN)
  await expect(tenants.get('late')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  await tenants.create({ name: 'other', domains: ['free.example'] })
})

test('one of many concurrent requests for a domain succeeds, the others are rejected', async () => {
  for (let round = 0; round < 10; round++) {
    const wanted = [`a${round}.example`, `b${round}.example`]
    const attempts = await Promise.allSettled(
      Array.from({ length: 8 }, (_, n) =>
        tenants.create({ name: `${n}`, domains: n % 2 ? wanted : wanted.toReversed() }),
      ),
    )
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason).toMatchObject(TAKEN)
    }
  }
})

test('two tenants that exchange domains concurrently are both rejected, or succeed in serial order', async () => {
  const { id: a } = await tenants.create({ name: 'a', domains: ['left.example'] })
  const { id: b } = await tenants.create({ name: 'b', domains: ['right.example'] })
  for (let round = 0; round < 2; round++) {
    const attempts = await Promise.allSettled([
      tenants.update(a, { domains: ['right.example'] }),
      tenants.update(b, { domains: ['left.example'] }),
    ])
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason).toMatchObject(TAKEN)
    }
    await tenants.update(a, { domains: [] })
    await tenants.update(b, { domains: ['right.example'] })
    await tenants.update(a, { domains: ['left.example'] })
  }
})

test('a deleted tenant keeps its domains until its purge', async () => {
  await installed(opened.tenancy, { id: 'leaving', name: 'Leaving', domains: ['kept.example'] })
  await tenants.delete('leaving')
  await expect(tenants.create({ name: 'heir', domains: ['kept.example'] })).rejects.toMatchObject(TAKEN)
  clock.advance(31 * DAY_MS)
  await tenants.installation.purge('leaving')
  expect((await tenants.create({ name: 'heir', domains: ['kept.example'] })).domains).toEqual(['kept.example'])
})
