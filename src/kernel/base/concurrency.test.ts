import { describe, expect, test } from 'vitest'
import { forEachConcurrent, mapConcurrent } from './concurrency.ts'

const ITEMS = ['a', 'b', 'c', 'd', 'e']

test('each item is processed once, in order, within the concurrency', async () => {
  const started: [string, number][] = []
  let running = 0
  let most = 0
  await forEachConcurrent(ITEMS, 2, async (item, index) => {
    started.push([item, index])
    most = Math.max(most, ++running)
    await Promise.resolve()
    running--
  })
  expect(started).toEqual(ITEMS.map((item, index) => [item, index]))
  expect(most).toBe(2)
})

test('no item is started after the signal has aborted', async () => {
  const stop = new AbortController()
  const started: string[] = []
  await forEachConcurrent(
    ITEMS,
    1,
    async (item) => {
      started.push(item)
      if (item === 'b') stop.abort()
    },
    stop.signal,
  )
  expect(started).toEqual(['a', 'b'])
})

describe('the first failure', () => {
  test('is thrown after all started items have ended, and no further item starts', async () => {
    const gate = Promise.withResolvers<void>()
    const started: string[] = []
    const ended: string[] = []
    let isFinished = false
    const all = forEachConcurrent(ITEMS, 3, async (item) => {
      started.push(item)
      if (item === 'b') throw new Error('b failed')
      await gate.promise
      ended.push(item)
      if (item === 'c') throw new Error('c failed, later')
    }).finally(() => {
      isFinished = true
    })
    const outcome = all.catch(({ message }) => message)
    for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    expect([isFinished, started]).toEqual([false, ['a', 'b', 'c']])
    gate.resolve()
    expect(await outcome).toBe('b failed')
    expect([started, ended]).toEqual([
      ['a', 'b', 'c'],
      ['a', 'c'],
    ])
  })

  test('may be any value', async () => {
    await expect(forEachConcurrent(ITEMS, 2, () => Promise.reject(undefined))).rejects.toBeUndefined()
  })
})

describe('mapConcurrent', () => {
  test('yields each result within the concurrency, and reads an item only before its start', async () => {
    let [read, running, most] = [0, 0, 0]
    async function* items() {
      for (const item of ITEMS) {
        read++
        yield item
      }
    }
    const results: string[] = []
    const work = async (item: string) => {
      most = Math.max(most, ++running)
      for (let turn = 0; turn < 20; turn++) await Promise.resolve()
      running--
      return item.toUpperCase()
    }
    for await (const result of mapConcurrent(items(), 2, work)) {
      results.push(result)
      expect(read - results.length).toBeLessThanOrEqual(3)
    }
    expect(results.toSorted()).toEqual(['A', 'B', 'C', 'D', 'E'])
    expect(most).toBe(2)
  })

  test('starts no item after the signal has aborted, and yields the results of the running ones', async () => {
    const stop = new AbortController()
    const work = async (item: string) => {
      if (item === 'b') stop.abort()
      return item
    }
    expect(await Array.fromAsync(mapConcurrent(ITEMS, 1, work, stop.signal))).toEqual(['a', 'b'])
  })

  test('throws the first failure after all started items have ended, and yields their results', async () => {
    const gate = Promise.withResolvers<void>()
    const started: string[] = []
    const results: string[] = []
    const work = async (item: string) => {
      started.push(item)
      if (item === 'b') throw new Error('b failed')
      await gate.promise
      return item
    }
    const all = (async () => {
      for await (const result of mapConcurrent(ITEMS, 3, work)) results.push(result)
    })()
    const outcome = all.catch(({ message }) => message)
    for (let turn = 0; turn < 50; turn++) await Promise.resolve()
    gate.resolve()
    expect(await outcome).toBe('b failed')
    expect(started).toEqual(['a', 'b'])
    expect(results).toEqual(['a'])
  })

  test('ends its running items if the reader leaves', async () => {
    let ended = 0
    const work = async () => {
      await Promise.resolve()
      ended++
    }
    for await (const _ of mapConcurrent(ITEMS, 3, work)) break
    const atTheEnd = ended
    for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    expect(ended).toBe(atTheEnd)
  })
})
