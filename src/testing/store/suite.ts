/**
 * Test suite of all store drivers.
 *
 * Vitest is loaded by the call, not by the import: `tenantry/testing` also serves projects with another test runner.
 */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { MAX_KEY_LENGTH, type Store } from '../../kernel/store/store.ts'
import { moveToNoon, type OpenedStore } from './opened-store.ts'
import { absenceSuite } from './suite-absence.ts'
import { countedSuite } from './suite-counted.ts'
import { countersSuite } from './suite-counters.ts'
import { gaugesSuite } from './suite-gauges.ts'
import { messagesSuite } from './suite-messages.ts'
import { rejectionsSuite } from './suite-rejections.ts'
import { sumsSuite } from './suite-sums.ts'

const WEIRD_KEYS = [
  'schlüssel:日本語:🔑',
  `quotes ' " \` and \\ backslash`,
  'a:b:c::',
  ' leading and trailing ',
  'lines\nand\ttabs',
  '%_*?[a-z]',
  '{tag}',
  '{}:x',
  'tenants/x/y',
  'folder/of:a key',
  'of:a/folder',
  '__proto__',
  'constructor',
  'k'.repeat(MAX_KEY_LENGTH),
  '鍵'.repeat(MAX_KEY_LENGTH),
]
const WEIRD_VALUES = ['', ' ', '0', 'null', '{"a":[1]}', 'ä\n\r\t🎈', `'; drop table store; --`]

/**
 * Registers the tests of store drivers in a Vitest file. Call it at the top level.
 *
 * @param open creates a store for this suite, with control of its clock; the suite closes it.
 * @example await storeSuite('redis', openRedis)
 */
export async function storeSuite(name: string, open: () => Promise<OpenedStore>): Promise<void> {
  const vitest = await import('vitest')
  const { afterAll, beforeAll, beforeEach, describe, expect, test } = vitest

  describe(`store ${name}`, () => {
    let opened: OpenedStore
    let store: Store
    let tenant: string
    const advanceSeconds = (seconds: number) => opened.advance(seconds * 1_000)
    const rejection = expect.objectContaining({ code: InvalidRequest.code })

    beforeAll(async () => {
      opened = await open()
      store = opened.store
      await moveToNoon(opened)
    })
    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
    })
    afterAll(async () => {
      await opened.store.close()
      await opened.cleanUp?.()
    })

    describe('values', () => {
      test('a key that was never set has no value', async () => {
        expect(await store.get(tenant, 'absent')).toBeNull()
        expect(await store.take(tenant, 'absent')).toBeNull()
      })

      test('a second write replaces the value', async () => {
        await store.set(tenant, 'colour', 'red')
        await store.set(tenant, 'colour', 'blue')
        expect(await store.get(tenant, 'colour')).toBe('blue')
      })

      test('a deleted key has no value, and deleting it again succeeds', async () => {
        await store.set(tenant, 'colour', 'red')
        await store.delete(tenant, 'colour')
        await store.delete(tenant, 'colour')
        expect(await store.get(tenant, 'colour')).toBeNull()
      })

      test.each(WEIRD_VALUES)('the value %j is read unchanged', async (value) => {
        await store.set(tenant, 'value', value)
        expect(await store.get(tenant, 'value')).toBe(value)
        expect(await store.take(tenant, 'value')).toBe(value)
      })

      test('a value of one mebibyte is read unchanged', async () => {
        const value = '\u{1F388}'.repeat(1_048_576 / 4)
        await store.set(tenant, 'value', value)
        expect((await store.get(tenant, 'value')) === value).toBe(true)
      })

      test('unusual keys are separate from each other', async () => {
        await Promise.all(WEIRD_KEYS.map((key, index) => store.set(tenant, key, `value ${index}`)))
        for (const [index, key] of WEIRD_KEYS.entries()) expect(await store.get(tenant, key)).toBe(`value ${index}`)
        await store.delete(tenant, '__proto__')
        expect(await store.get(tenant, '__proto__')).toBeNull()
        expect(await store.get(tenant, 'constructor')).not.toBeNull()
      })
    })

    describe('expiry by the store’s clock', () => {
      test('a value is present just before its expiry, and absent at its expiry', async () => {
        await store.set(tenant, 'session', 'abc', 60)
        await advanceSeconds(59)
        expect(await store.get(tenant, 'session')).toBe('abc')
        await advanceSeconds(1)
        expect(await store.get(tenant, 'session')).toBeNull()
      })

      test('an expired value cannot be taken', async () => {
        await store.set(tenant, 'code', 'abc', 60)
        await advanceSeconds(60)
        expect(await store.take(tenant, 'code')).toBeNull()
      })

      test('each write sets a new expiry', async () => {
        await store.set(tenant, 'session', 'abc', 60)
        await advanceSeconds(40)
        await store.set(tenant, 'session', 'abc', 60)
        await advanceSeconds(40)
        expect(await store.get(tenant, 'session')).toBe('abc')
      })

      test('a write without an expiry removes the expiry', async () => {
        await store.set(tenant, 'session', 'abc', 60)
        await store.set(tenant, 'session', 'def')
        await advanceSeconds(86_400)
        expect(await store.get(tenant, 'session')).toBe('def')
      })

      test('a key can be set again after its expiry', async () => {
        await store.set(tenant, 'session', 'abc', 1)
        await advanceSeconds(2)
        await store.set(tenant, 'session', 'def', 60)
        expect(await store.get(tenant, 'session')).toBe('def')
      })

      test('hundreds of concurrent writes succeed next to expired keys', async () => {
        await store.set(tenant, 'kept', 'for long')
        for (let n = 0; n < 150; n++) await store.set(tenant, `short ${n}`, 'x', 1)
        await advanceSeconds(2)
        await store.set(tenant, 'short 7', 'again', 60)
        for (let n = 0; n < 150; n++) await store.set(tenant, `later ${n}`, String(n), 60)
        expect(await store.get(tenant, 'kept')).toBe('for long')
        expect(await store.get(tenant, 'short 7')).toBe('again')
        expect(await store.get(tenant, 'short 8')).toBeNull()
        for (let n = 0; n < 150; n++) expect(await store.get(tenant, `later ${n}`)).toBe(String(n))
      })
    })

    describe('take', () => {
      test('of fifty concurrent takes of one key, one receives the value', async () => {
        await store.set(tenant, 'code', 'abc', 60)
        const taken = await Promise.all(Array.from({ length: 50 }, () => store.take(tenant, 'code')))
        expect(taken.filter((value) => value !== null)).toEqual(['abc'])
        expect(await store.get(tenant, 'code')).toBeNull()
      })
    })

    absenceSuite(vitest, () => opened)

    describe('increment', () => {
      test('an increment starts at 0, and may be negative', async () => {
        expect(await store.increment(tenant, 'calls', 5)).toBe(5)
        expect(await store.increment(tenant, 'calls', -7)).toBe(-2)
        expect(await store.increment(tenant, 'calls', 0)).toBe(-2)
        expect(await store.get(tenant, 'calls')).toBe('-2')
      })

      test('two hundred concurrent increments are each counted once', async () => {
        const results = await Promise.all(Array.from({ length: 200 }, () => store.increment(tenant, 'calls', 1, 60)))
        expect(results.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, index) => index + 1))
        expect(await store.get(tenant, 'calls')).toBe('200')
      })

      test('an increment is exact beyond 32 bits', async () => {
        await store.increment(tenant, 'bytes', 2 ** 52)
        expect(await store.increment(tenant, 'bytes', 1)).toBe(2 ** 52 + 1)
      })

      test('concurrent increments of an expired counter start at 0', async () => {
        await store.increment(tenant, 'calls', 41, 60)
        await advanceSeconds(60)
        expect(await store.get(tenant, 'calls')).toBeNull()
        await Promise.all(Array.from({ length: 20 }, () => store.increment(tenant, 'calls', 1, 60)))
        expect(await store.get(tenant, 'calls')).toBe('20')
      })

      test('each increment sets a new expiry', async () => {
        await store.increment(tenant, 'calls', 1, 60)
        await advanceSeconds(40)
        await store.increment(tenant, 'calls', 1, 60)
        await advanceSeconds(40)
        expect(await store.increment(tenant, 'calls', 1)).toBe(3)
        await advanceSeconds(86_400)
        expect(await store.get(tenant, 'calls')).toBe('3')
      })

      test('an increment continues from a number that was set, and is rejected for other values', async () => {
        await store.set(tenant, 'number', '40')
        expect(await store.increment(tenant, 'number', 2)).toBe(42)
        await store.set(tenant, 'word', 'forty')
        await expect(store.increment(tenant, 'word', 2)).rejects.toEqual(rejection)
        expect(await store.get(tenant, 'word')).toBe('forty')
      })
    })

    describe('owners', () => {
      test('a key of two tenants and of the service is three separate keys', async () => {
        const other = `${tenant}-2`
        const key = `key of ${tenant}`
        await store.set(tenant, key, 'mine')
        await store.set(other, key, 'theirs')
        await store.set(null, key, 'the service has it')
        await store.increment(tenant, 'calls', 1)
        expect(await store.increment(other, 'calls', 1)).toBe(1)
        await store.delete(tenant, key)
        expect(await store.take(tenant, key)).toBeNull()
        expect(await store.get(other, key)).toBe('theirs')
        expect(await store.get(null, key)).toBe('the service has it')
      })

      test('an owner and a key cannot be confused with another owner and key', async () => {
        await store.set(tenant, 'x:y', 'one')
        expect(await store.get(`${tenant}:x`, 'y')).toBeNull()
        expect(await store.get(null, `${tenant}:x:y`)).toBeNull()
      })

      test('a list contains the unexpired values of exactly one key, by tenant', async () => {
        const other = `${tenant}-2`
        const key = `circuit of ${tenant}`
        await store.set(tenant, key, 'mine')
        await store.set(other, key, 'theirs', 60)
        await store.set(null, key, 'of the service')
        for (const near of [`${key} `, key.toUpperCase()]) await store.set(tenant, near, 'not listed')
        const listed = (await store.list(key)).map(({ tenantId, value }) => `${value} by ${tenantId}`)
        expect(listed.toSorted()).toEqual([`mine by ${tenant}`, `theirs by ${other}`])
        await advanceSeconds(60)
        expect(await store.list(key)).toEqual([{ tenantId: tenant, value: 'mine' }])
        await store.purge(tenant)
        expect(await store.list(key)).toEqual([])
      })

      test('a purge removes everything of exactly one tenant', async () => {
        const neighbours = [`${tenant}-2`, `${tenant}_`, tenant.slice(0, -1), tenant.toUpperCase(), null]
        for (const owner of [tenant, ...neighbours]) await store.set(owner, `key of ${tenant}`, 'x')
        for (const key of WEIRD_KEYS) await store.set(tenant, key, 'x', 60)
        await store.increment(tenant, 'calls', 1)
        expect(await store.count(tenant)).toBe(WEIRD_KEYS.length + 2)
        await store.purge(tenant)
        expect(await store.count(tenant)).toBe(0)
        for (const key of [...WEIRD_KEYS, 'calls', `key of ${tenant}`]) expect(await store.get(tenant, key)).toBeNull()
        for (const owner of neighbours) expect(await store.get(owner, `key of ${tenant}`)).toBe('x')
      })

      test('a purge of a tenant without values succeeds', async () => {
        await store.purge(tenant)
      })
    })

    rejectionsSuite(vitest, () => opened)
    countersSuite(vitest, () => opened)
    gaugesSuite(vitest, () => opened)
    countedSuite(vitest, () => opened)
    sumsSuite(vitest, () => opened)
    messagesSuite(vitest, () => opened)

    test('the store replies to a ping', async () => {
      await store.ping()
    })
  })
}
