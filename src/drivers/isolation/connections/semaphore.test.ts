import { expect, test } from 'vitest'
import { never } from '../copy/copy.fixture.ts'
import { Semaphore } from './semaphore.ts'

/** Holds a permit until `leave` is called. */
function visit(semaphore: Semaphore, signal = never()) {
  const released = Promise.withResolvers<void>()
  const visitor = { isInside: false, leave: released.resolve, fail: released.reject, over: Promise.resolve() }
  visitor.over = semaphore.run(signal, async () => {
    visitor.isInside = true
    await released.promise
  })
  return visitor
}
/** Waits until all resolved promises have been handled. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
const inside = (visitors: readonly { isInside: boolean }[]) => visitors.map(({ isInside }) => isInside)

test('Semaphore admits as many callers as it has permits, and the next ones in their order', async () => {
  const semaphore = new Semaphore(2)
  const visitors = Array.from({ length: 5 }, () => visit(semaphore))
  await settled()
  expect(inside(visitors)).toEqual([true, true, false, false, false])
  visitors[1]?.leave()
  await settled()
  expect(inside(visitors)).toEqual([true, true, true, false, false])
  visitors[0]?.fail(new Error('inside'))
  await expect(visitors[0]?.over).rejects.toThrow('inside')
  await settled()
  expect(inside(visitors)).toEqual([true, true, true, true, false])
  for (const { leave } of visitors) leave()
  await Promise.all(visitors.slice(1).map(({ over }) => over))
  const later = [visit(semaphore), visit(semaphore), visit(semaphore)]
  await settled()
  expect(inside(later)).toEqual([true, true, false])
})

test('Semaphore removes an aborted waiting caller and admits the next one', async () => {
  const semaphore = new Semaphore(1)
  const first = visit(semaphore)
  const controller = new AbortController()
  const [second, third] = [visit(semaphore, controller.signal), visit(semaphore)]
  await settled()
  const reason = new Error('not wanted')
  controller.abort(reason)
  await expect(second.over).rejects.toBe(reason)
  await expect(visit(semaphore, controller.signal).over).rejects.toBe(reason)
  first.leave()
  await settled()
  expect(inside([second, third])).toEqual([false, true])
  third.leave()
  await third.over
  const last = visit(semaphore)
  await settled()
  expect(last.isInside).toBe(true)
})
