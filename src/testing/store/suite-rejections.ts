/** What no store takes, so that none takes what another could not keep; a part of `storeSuite`. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { MAX_KEY_LENGTH, type Store } from '../../kernel/store/store.ts'
import type { OpenedStore } from './opened-store.ts'

const HALF_A_CHARACTER = '\uD83D'

export function rejectionsSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('refuses what not every driver could keep', () => {
    let tenant: string
    let store: Store
    const rejection = expect.objectContaining({ code: InvalidRequest.code })
    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
      store = opened().store
    })

    test.each([
      ['that is empty', ''],
      ['that is too long', 'k'.repeat(MAX_KEY_LENGTH + 1)],
      ['with a NUL', 'a\0b'],
      ['with half a character', HALF_A_CHARACTER],
    ])('a key %s', async (_, key) => {
      await expect(store.get(tenant, key)).rejects.toEqual(rejection)
      await expect(store.set(tenant, key, 'x')).rejects.toEqual(rejection)
      await expect(store.take(tenant, key)).rejects.toEqual(rejection)
      await expect(store.delete(tenant, key)).rejects.toEqual(rejection)
      await expect(store.increment(tenant, key, 1)).rejects.toEqual(rejection)
      await expect(store.list(key)).rejects.toEqual(rejection)
    })

    test.each([
      ['with a NUL', 'a\0b'],
      ['with half a character', HALF_A_CHARACTER],
    ])('a value %s', async (_, value) => {
      await expect(store.set(tenant, 'key', value)).rejects.toEqual(rejection)
      expect(await store.get(tenant, 'key')).toBeNull()
    })

    test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e300])('an expiry in %d seconds', async (ttlSeconds) => {
      await expect(store.set(tenant, 'key', 'x', ttlSeconds)).rejects.toEqual(rejection)
      await expect(store.increment(tenant, 'key', 1, ttlSeconds)).rejects.toEqual(rejection)
    })

    test.each([0.5, Number.NaN, 2 ** 53])('counting by %d', async (amount) => {
      await expect(store.increment(tenant, 'key', amount)).rejects.toEqual(rejection)
    })

    test('an owner without a name, which would be the service', async () => {
      await store.set(null, `key of ${tenant}`, 'x')
      await expect(store.purge('')).rejects.toEqual(rejection)
      await expect(store.get('', `key of ${tenant}`)).rejects.toEqual(rejection)
      expect(await store.get(null, `key of ${tenant}`)).toBe('x')
    })
  })
}
