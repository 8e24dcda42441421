/** What may be set only where nothing is; a part of `storeSuite`. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { OpenedStore } from './opened-store.ts'

export function absenceSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('sets what is not there', () => {
    let tenant: string
    const store = () => opened().store
    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
    })

    test('once: of fifty at the same time one is told so, and it is its value that is kept', async () => {
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => store().setIfAbsent(tenant, 'leader', `caller ${n}`, 60)),
      )
      expect(results.filter(Boolean)).toHaveLength(1)
      expect(await store().get(tenant, 'leader')).toBe(`caller ${results.indexOf(true)}`)
    })

    test('again when it has expired, or was taken or deleted', async () => {
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

    test('not over what was set, and without touching its expiry', async () => {
      await store().set(tenant, 'lease', 'set', 60)
      expect(await store().setIfAbsent(tenant, 'lease', 'other', 600)).toBe(false)
      await opened().advance(60_000)
      expect(await store().get(tenant, 'lease')).toBeNull()
    })

    test('for each owner apart', async () => {
      expect(await store().setIfAbsent(tenant, `lease of ${tenant}`, 'mine')).toBe(true)
      expect(await store().setIfAbsent(null, `lease of ${tenant}`, "the service's")).toBe(true)
    })

    test('and refuses what could not be kept', async () => {
      const rejection = expect.objectContaining({ code: InvalidRequest.code })
      await expect(store().setIfAbsent(tenant, '', 'x')).rejects.toEqual(rejection)
      await expect(store().setIfAbsent(tenant, 'lease', 'a\0b')).rejects.toEqual(rejection)
      await expect(store().setIfAbsent(tenant, 'lease', 'x', 0)).rejects.toEqual(rejection)
    })
  })
}
