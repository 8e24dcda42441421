/** Eviction of one tenant's flags at the limit. */
import { expect, test } from 'vitest'
import { prepared } from '../model/rollout.ts'
import { type Entry, TenantFlags } from './known-flags.ts'

const entry = (load: number, rule: Entry['rule']): Entry => ({
  rule,
  isKnown: true,
  load,
  at: 0,
  period: 0,
  dueAt: 0,
  isDoubtful: false,
})
const there = (key: string, load = 1) =>
  entry(load, prepared({ key, enabled: true, rolloutPercent: null, bucketKey: null }))
const absent = (load = 1) => entry(load, undefined)
const started = { load: 1, at: 0, generation: 0, period: 0 }

const flagsOf = (max: number, kept: Readonly<Record<string, Entry>>): TenantFlags => {
  const flags = new TenantFlags(max)
  for (const [key, one] of Object.entries(kept)) flags.put(key, one)
  return flags
}
const keysOf = ({ entries }: TenantFlags) => [...entries.keys()]

test('unknown flags are evicted first, in their order, then existing flags', () => {
  const flags = flagsOf(3, { a: there('a'), b: absent(), c: absent(), d: there('d') })
  expect(keysOf(flags)).toEqual(['a', 'c', 'd'])
  flags.put('e', there('e'))
  expect(keysOf(flags)).toEqual(['a', 'd', 'e'])
  flags.put('f', absent())
  expect(keysOf(flags)).toEqual(['a', 'd', 'e'])
  flags.put('g', there('g'))
  expect(keysOf(flags)).toEqual(['d', 'e', 'g'])
})

test('a created or deleted flag counts by its new state', () => {
  const flags = flagsOf(2, { a: absent(), b: there('b') })
  flags.put('a', there('a', 2))
  flags.put('b', absent(2))
  flags.put('c', there('c'))
  expect(keysOf(flags)).toEqual(['a', 'c'])
})

test('returns the number of added entries', () => {
  const flags = new TenantFlags(1)
  expect([flags.put('a', there('a')), flags.put('a', there('a', 2)), flags.put('b', absent())]).toEqual([1, 0, 0])
})

test('an earlier load does not replace a later one', () => {
  const flags = flagsOf(3, { a: there('a', 2) })
  flags.put('a', absent(1))
  expect(flags.present().map(({ load }) => load)).toEqual([2])
})

test('all flags are known until one of them is evicted', () => {
  const flags = flagsOf(2, { a: there('a'), b: absent() })
  flags.putAll(started, [['a', there('a')]], absent)
  expect(flags.whole).toBe(started)
  flags.put('c', there('c'))
  expect(flags.whole).toBe(started)
  flags.put('d', there('d'))
  expect(flags.whole).toBeUndefined()
  flags.putAll(
    { ...started, load: 2 },
    ['e', 'f', 'g'].map((key) => [key, there(key, 2)] as const),
    () => absent(2),
  )
  expect(flags.whole).toBeUndefined()
})

test('a flag that is not among all known flags does not exist', () => {
  const flags = flagsOf(9, { old: there('old', 1), newer: there('newer', 3), none: absent(1) })
  flags.putAll({ ...started, load: 2 }, [['one', there('one', 2)]], () => absent(2))
  expect(flags.present().map(({ rule }) => rule?.key)).toEqual(['newer', 'one'])
  expect(flags.entries.get('old')).toMatchObject({ rule: undefined, isKnown: true, load: 2 })
  expect(flags.entries.get('none')).toMatchObject({ load: 2 })
})
