/** What is kept of one tenant's flags when there is no room for all. */
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

test('of what is not there the first goes first, and only then of what is there', () => {
  const flags = flagsOf(3, { a: there('a'), b: absent(), c: absent(), d: there('d') })
  expect(keysOf(flags)).toEqual(['a', 'c', 'd'])
  flags.put('e', there('e'))
  expect(keysOf(flags)).toEqual(['a', 'd', 'e'])
  flags.put('f', absent())
  expect(keysOf(flags)).toEqual(['a', 'd', 'e'])
  flags.put('g', there('g'))
  expect(keysOf(flags)).toEqual(['d', 'e', 'g'])
})

test('what comes to be, and what ceases to be, counts as what it is now', () => {
  const flags = flagsOf(2, { a: absent(), b: there('b') })
  flags.put('a', there('a', 2))
  flags.put('b', absent(2))
  flags.put('c', there('c'))
  expect(keysOf(flags)).toEqual(['a', 'c'])
})

test('answers how many more there are', () => {
  const flags = new TenantFlags(1)
  expect([flags.put('a', there('a')), flags.put('a', there('a', 2)), flags.put('b', absent())]).toEqual([1, 0, 0])
})

test('what began earlier does not take the place of what began later', () => {
  const flags = flagsOf(3, { a: there('a', 2) })
  flags.put('a', absent(1))
  expect(flags.present().map(({ load }) => load)).toEqual([2])
})

test('all are known for as long as none of them had to go', () => {
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

test('of all, what is not among them is not there', () => {
  const flags = flagsOf(9, { old: there('old', 1), newer: there('newer', 3), none: absent(1) })
  flags.putAll({ ...started, load: 2 }, [['one', there('one', 2)]], () => absent(2))
  expect(flags.present().map(({ rule }) => rule?.key)).toEqual(['newer', 'one'])
  expect(flags.entries.get('old')).toMatchObject({ rule: undefined, isKnown: true, load: 2 })
  expect(flags.entries.get('none')).toMatchObject({ load: 2 })
})
