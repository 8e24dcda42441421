/** Group of `storeSuite`: inputs that some store could not keep, and that every store rejects. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { MAX_KEY_LENGTH, type Store } from '../../kernel/store/store.ts'
import type { OpenedStore } from './opened-store.ts'

const HALF_A_CHARACTER = '\uD83D'

export function rejectionsSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('invalid input', () => {
    let tenant: string
    let store: Store
    const rejection = expect.objectContaining({ code: InvalidRequest.code })
    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
      store = opened().store
    })

    test.each([
      ['empty', ''],
      ['too long', 'k'.repeat(MAX_KEY_LENGTH + 1)],
      ['containing NUL', 'a\0b'],
      ['containing an unpaired surrogate', HALF_A_CHARACTER],
    ])('a key is rejected: %s', async (_, key) => {
      await expect(store.get(tenant, key)).rejects.toEqual(rejection)
      await expect(store.set(tenant, key, 'x')).rejects.toEqual(rejection)
      await expect(store.take(tenant, key)).rejects.toEqual(rejection)
      await expect(store.delete(tenant, key)).rejects.toEqual(rejection)
      await expect(store.increment(tenant, key, 1)).rejects.toEqual(rejection)
      await expect(store.list(key)).rejects.toEqual(rejection)
    })

    test.each([
      ['containing NUL', 'a\0b'],
      ['containing an unpaired surrogate', HALF_A_CHARACTER],
    ])('a value is rejected: %s', async (_, value) => {
      await expect(store.set(tenant, 'key', value)).rejects.toEqual(rejection)
      expect(await store.get(tenant, 'key')).toBeNull()
    })

    test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e300])(
      'an expiry of %d seconds is rejected',
      async (ttlSeconds) => {
        await expect(store.set(tenant, 'key', 'x', ttlSeconds)).rejects.toEqual(rejection)
        await expect(store.increment(tenant, 'key', 1, ttlSeconds)).rejects.toEqual(rejection)
      },
    )

    test.each([0.5, Number.NaN, 2 ** 53])('an increment by %d is rejected', async (amount) => {
      await expect(store.increment(tenant, 'key', amount)).rejects.toEqual(rejection)
    })

    test('an owner with an empty name, which would be the service, is rejected', async () => {
      await store.set(null, `key of ${tenant}`, 'x')
      await expect(store.purge('')).rejects.toEqual(rejection)
      await expect(store.get('', `key of ${tenant}`)).rejects.toEqual(rejection)
      expect(await store.get(null, `key of ${tenant}`)).toBe('x')
    })
  })
}
