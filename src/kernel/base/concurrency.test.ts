import { describe, expect, test } from 'vitest'
import { forEachConcurrent } from './concurrency.ts'

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
