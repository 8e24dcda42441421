/** Group of `storeSuite`: values that are set only if the key is absent. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { OpenedStore } from './opened-store.ts'

export function absenceSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('setIfAbsent', () => {
    let tenant: string
    const store = () => opened().store
    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
    })

    test('of fifty concurrent calls for one key, one succeeds and its value is kept', async () => {
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => store().setIfAbsent(tenant, 'leader', `caller ${n}`, 60)),
      )
      expect(results.filter(Boolean)).toHaveLength(1)
      expect(await store().get(tenant, 'leader')).toBe(`caller ${results.indexOf(true)}`)
    })

    test('an absent key is set again after expiry, take or deletion', async () => {
      expect(await store().setIfAbsent(tenant, 'lease', 'first', 60)).toBe(true)
      await opened().advance(59_000)
      expect(await store().setIfAbsent(tenant, 'lease', 'too early', 60)).toBe(false)
      await opened().advance(1_000)
      expect(await store().setIfAbsent(tenant, 'lease', 'second')).toBe(true)
      await opened().advance(86_400_000)
      expect(await store().setIfAbsent(tenant, 'lease', 'too early')).toBe(false)
      expect(await store().take(tenant, 'lease')).toBe('second')
      expect(await store().setIfAbsent(tenant, 'lease', 'third')).toBe(true)
      await store().delete(tenant, 'lease')
      expect(await store().setIfAbsent(tenant, 'lease', 'fourth')).toBe(true)
    })

    test('a present key keeps its value and its expiry', async () => {
      await store().set(tenant, 'lease', 'set', 60)
      expect(await store().setIfAbsent(tenant, 'lease', 'other', 600)).toBe(false)
      await opened().advance(60_000)
      expect(await store().get(tenant, 'lease')).toBeNull()
    })

    test('keys of different owners are independent', async () => {
      expect(await store().setIfAbsent(tenant, `lease of ${tenant}`, 'mine')).toBe(true)
      expect(await store().setIfAbsent(null, `lease of ${tenant}`, "the service's")).toBe(true)
    })

    test('an invalid key, value or expiry is rejected', async () => {
      const rejection = expect.objectContaining({ code: InvalidRequest.code })
      await expect(store().setIfAbsent(tenant, '', 'x')).rejects.toEqual(rejection)
      await expect(store().setIfAbsent(tenant, 'lease', 'a\0b')).rejects.toEqual(rejection)
      await expect(store().setIfAbsent(tenant, 'lease', 'x', 0)).rejects.toEqual(rejection)
    })
  })
}
