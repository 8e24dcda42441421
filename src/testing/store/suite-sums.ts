/** Group of `storeSuite`: sums by day. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { MAX_SUM, type Sum, type SumBatch } from '../../kernel/store/sums.ts'
import type { OpenedStore } from './opened-store.ts'

const MANY = 300

export function sumsSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('sums of a day', () => {
    let tenant: string
    /** Unique for each test, so that sums of other tests are not included. */
    let day: string
    let source: string
    let number: number
    const rejection = expect.objectContaining({ code: InvalidRequest.code })
    const sums = () => opened().store.sums
    const addition = (name: string, amount: number, tenantId = tenant) => ({ tenantId, name, amount })
    const add = (additions: SumBatch['additions'], more: Partial<SumBatch> = {}) =>
      sums().add({ day, source, number: number++, additions, ...more })
    const read = async (...days: string[]) =>
      Object.fromEntries(
        (await sums().read(tenant, days.length > 0 ? days : [day])).map(({ name, sum }) => [name, sum]),
      )
    const incarnation = async (name: string) =>
      (await sums().read(tenant, [day])).find((one) => one.name === name)?.incarnation
    const all = async (of = day) => {
      const found = new Map<string, Sum>()
      for await (const page of sums().pages(of)) {
        const keys = page.map(({ tenantId, name }) => `${tenantId} ${name}`)
        expect(new Set(keys).size).toBe(keys.length)
        for (const [index, key] of keys.entries()) found.set(key, page[index] as Sum)
      }
      return found
    }
    let days = Date.UTC(2030, 0, 1)

    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
      days += 10 * 86_400_000
      day = new Date(days).toISOString().slice(0, 10)
      source = randomUUID()
      number = 1
    })

    test('sums start at 0 and are separate by tenant, name and day', async () => {
      const other = `${tenant}-2`
      expect(await read()).toEqual({})
      await add([addition('requests', 3), addition('bytes', 0), addition('requests', 5, other)])
      await add([addition('requests', 4), addition('a.b_c-D', 7)])
      await add([addition('requests', 100)], { day: '2029-12-31', source: randomUUID() })
      expect(await read()).toEqual({ requests: 7, bytes: 0, 'a.b_c-D': 7 })
      expect(await read('2029-12-31')).toEqual({ requests: 100 })
      const both = await sums().read(tenant, [day, '2029-12-31'])
      expect(both.filter(({ name }) => name === 'requests').map((one) => [one.day, one.sum])).toEqual(
        expect.arrayContaining([
          [day, 7],
          ['2029-12-31', 100],
        ]),
      )
      expect((await sums().read(other, [day])).map(({ tenantId, sum }) => [tenantId, sum])).toEqual([[other, 5]])
    })

    test('a name that occurs twice in a batch is added twice', async () => {
      await add([addition('requests', 1), addition('requests', 2)])
      expect(await read()).toEqual({ requests: 3 })
    })

    test('a batch that is sent repeatedly is added once', async () => {
      const batch = { day, source: randomUUID(), number: 7, additions: [addition('requests', 5)] }
      for (let time = 0; time < 3; time++) await sums().add(batch)
      await Promise.all([sums().add(batch), sums().add(batch), sums().add(batch)])
      expect(await read()).toEqual({ requests: 5 })
      await sums().add({ ...batch, number: 6 })
      expect(await read()).toEqual({ requests: 5 })
      await sums().add({ ...batch, number: 8 })
      await sums().add({ ...batch, source: randomUUID() })
      expect(await read()).toEqual({ requests: 15 })
    })

    test('concurrent batches of many sources, each sent twice, add up exactly', async () => {
      const tenants = [tenant, `${tenant}-2`, `${tenant}-3`]
      const from = async () => {
        const source = randomUUID()
        for (let number = 1; number <= 10; number++) {
          const additions = tenants.flatMap((id) => [addition('requests', 1, id), addition('bytes', 1_000, id)])
          const batch = { day, source, number, additions: number % 2 ? additions : additions.toReversed() }
          await Promise.all([sums().add(batch), sums().add(batch)])
        }
      }
      await Promise.all(Array.from({ length: 10 }, from))
      expect(await read()).toEqual({ requests: 100, bytes: 100_000 })
      expect((await all()).get(`${tenant}-3 bytes`)).toMatchObject({ sum: 100_000 })
    })

    test('pages contain every tenant exactly once', async () => {
      const additions = Array.from({ length: MANY }, (_, n) => [
        addition('requests', n, `${tenant}-${n}`),
        addition('bytes', 1, `${tenant}-${n}`),
      ]).flat()
      await add(additions)
      const found = await all()
      expect(found.size).toBe(2 * MANY)
      for (let n = 0; n < MANY; n++) expect(found.get(`${tenant}-${n} requests`)?.sum).toBe(n)
      expect(await all('2001-01-01')).toEqual(new Map())
    })

    test('a sum stops at the largest exact number', async () => {
      await add([addition('bytes', MAX_SUM - 1), addition('more', MAX_SUM)])
      await add([addition('bytes', 1)])
      expect(await read()).toEqual({ bytes: MAX_SUM, more: MAX_SUM })
      await add([addition('bytes', MAX_SUM), addition('more', 1)])
      expect(await read()).toEqual({ bytes: MAX_SUM, more: MAX_SUM })
    })

    test('the incarnation changes only when the sums are lost', async () => {
      await add([addition('requests', 1)])
      const first = await incarnation('requests')
      expect(first).toMatch(/^[0-9a-f-]{36}$/)
      await add([addition('requests', 1)])
      expect(await incarnation('requests')).toBe(first)
      expect((await all()).get(`${tenant} requests`)?.incarnation).toBe(first)
      expect(await opened().store.count(tenant)).toBeGreaterThan(0)
      await opened().store.purge(tenant)
      expect(await opened().store.count(tenant)).toBe(0)
      expect(await read()).toEqual({})
      await add([addition('requests', 1)])
      expect(await read()).toEqual({ requests: 1 })
      expect(await incarnation('requests')).not.toBe(first)
    })

    test('a purge removes the sums of exactly one tenant', async () => {
      const neighbours = [`${tenant}-2`, tenant.slice(0, -1), tenant.toUpperCase()]
      await add([tenant, ...neighbours].map((id) => addition('requests', 1, id)))
      await opened().store.purge(tenant)
      expect([...(await all()).values()].map(({ tenantId }) => tenantId).toSorted()).toEqual(neighbours.toSorted())
    })

    test('an empty batch adds nothing', async () => {
      await add([])
      expect(await all()).toEqual(new Map())
    })

    test('sums do not affect counters and keys of the same names', async () => {
      await opened().store.counters.take(tenant, [{ name: 'requests', amount: 2, limit: null }])
      await opened().store.set(tenant, `metrics:${day}`, 'x')
      await add([addition('requests', 5)])
      expect(await read()).toEqual({ requests: 5 })
      expect((await opened().store.counters.readAll(tenant)).today).toEqual(new Map([['requests', 2]]))
      expect(await opened().store.get(tenant, `metrics:${day}`)).toBe('x')
    })

    test.each<[string, Partial<SumBatch>]>([
      ['an invalid day', { day: 'today' }],
      ['an invalid source', { source: 'me' }],
      ['a fractional batch number', { number: 0.5 }],
      ['a negative amount', { additions: [{ tenantId: 'acme', name: 'x', amount: -1 }] }],
      ['a fractional amount', { additions: [{ tenantId: 'acme', name: 'x', amount: 0.5 }] }],
      ['an inexact amount', { additions: [{ tenantId: 'acme', name: 'x', amount: 2 ** 53 }] }],
      ['an invalid name', { additions: [{ tenantId: 'acme', name: '@', amount: 1 }] }],
      ['an invalid tenant', { additions: [{ tenantId: '', name: 'x', amount: 1 }] }],
    ])('a batch is rejected: %s', async (_, more) => {
      await expect(add([addition('requests', 1)], more)).rejects.toEqual(rejection)
      expect(await read()).toEqual({})
    })

    test('reads of invalid days and tenants are rejected', async () => {
      await expect(sums().read('', [day])).rejects.toEqual(rejection)
      await expect(sums().read(tenant, ['yesterday'])).rejects.toEqual(rejection)
      await expect(all('yesterday')).rejects.toEqual(rejection)
    })
  })
}
