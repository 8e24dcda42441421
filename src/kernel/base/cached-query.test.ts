import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Refreshed, refreshed } from './cached-query.ts'

const REFRESH_MS = 2_000
const STALE_AFTER_MS = 10_000
const INTEREST_MS = 60_000

let loads = 0
let load: () => Promise<number>
let value: Refreshed<number>

beforeEach(() => {
  vi.useFakeTimers()
  loads = 0
  load = async () => loads
  value = refreshed(() => {
    loads += 1
    return load()
  })
})
afterEach(() => {
  value.stop()
  vi.useRealTimers()
})

const failing = async () => {
  throw new Error('the database is unavailable')
}

test('no value is loaded before the first request', async () => {
  await vi.advanceTimersByTimeAsync(INTEREST_MS)
  expect(loads).toBe(0)
})

test('concurrent requests share one load', async () => {
  const results = await Promise.all(Array.from({ length: 50 }, () => value.get()))
  expect(new Set(results)).toEqual(new Set([1]))
  expect(await value.get()).toBe(1)
  expect(loads).toBe(1)
})

test('after a request the value is loaded again every two seconds', async () => {
  await value.get()
  await vi.advanceTimersByTimeAsync(REFRESH_MS)
  expect(await value.get()).toBe(2)
  await vi.advanceTimersByTimeAsync(REFRESH_MS)
  expect(await value.get()).toBe(3)
})

test('loading ends without requests, and the next request does not return an old value', async () => {
  await value.get()
  await vi.advanceTimersByTimeAsync(INTEREST_MS + REFRESH_MS)
  expect(vi.getTimerCount()).toBe(0)
  const before = loads
  await vi.advanceTimersByTimeAsync(INTEREST_MS)
  expect(loads).toBe(before)
  expect(await value.get()).toBe(before + 1)
})

test('a slow load does not start a second one, and requests return the former value', async () => {
  await value.get()
  const slow = Promise.withResolvers<number>()
  load = () => slow.promise
  await vi.advanceTimersByTimeAsync(2 * REFRESH_MS)
  expect(loads).toBe(2)
  expect(await value.get()).toBe(1)
  slow.resolve(7)
  await vi.advanceTimersByTimeAsync(0)
  expect(await value.get()).toBe(7)
})

test('requests return the last value of any age while loading fails, and the new value afterwards', async () => {
  await value.get()
  load = failing
  await vi.advanceTimersByTimeAsync(STALE_AFTER_MS + REFRESH_MS)
  expect(await value.get()).toBe(1)
  load = async () => 42
  await vi.advanceTimersByTimeAsync(REFRESH_MS)
  expect(await value.get()).toBe(42)
})

test('a request fails if no value was ever loaded, and the next request loads again', async () => {
  load = failing
  await expect(value.get()).rejects.toThrow('the database is unavailable')
  load = async () => 42
  expect(await value.get()).toBe(42)
})

test('no value is loaded after a stop', async () => {
  await value.get()
  value.stop()
  expect(vi.getTimerCount()).toBe(0)
})

test('a request does not wait for a load that does not end', async () => {
  await value.get()
  load = () => new Promise(() => undefined)
  await vi.advanceTimersByTimeAsync(STALE_AFTER_MS + REFRESH_MS)
  const stale = value.get()
  const other = refreshed(load)
  const first = other.get()
  first.catch(() => undefined)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await stale).toBe(1)
  await expect(first).rejects.toThrow('Loading takes too long')
  other.stop()
})

test('an expensive value is loaded only for its share of time, and a failed load is repeated without that pause', async () => {
  const slow = Promise.withResolvers<number>()
  load = () => slow.promise
  const expensive = refreshed(
    () => {
      loads += 1
      return load()
    },
    { maxShare: 0.01 },
  )
  const first = expensive.get()
  await vi.advanceTimersByTimeAsync(500)
  slow.resolve(1)
  await first
  load = failing
  await vi.advanceTimersByTimeAsync(46_000)
  await expensive.get()
  expect(loads).toBe(1)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(loads).toBeGreaterThan(2)
  expensive.stop()
})

test('the age is that of the value, also while loading fails; without a value it is the time since the first request', async () => {
  expect(value.ageSeconds()).toBeUndefined()
  load = failing
  await expect(value.get()).rejects.toThrow()
  await vi.advanceTimersByTimeAsync(5_000)
  expect(value.ageSeconds()).toBeCloseTo(5)
  load = async () => 1
  await value.get()
  expect(value.ageSeconds()).toBeCloseTo(0)
  load = failing
  await vi.advanceTimersByTimeAsync(30_000)
  expect(value.ageSeconds()).toBeCloseTo(30)
})
