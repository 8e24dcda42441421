import { expect, onTestFinished, test, vi } from 'vitest'
import { currentDeadline, Deadline, withoutDeadline } from './deadline.ts'

function deadlineOf(ms: number): Deadline {
  const deadline = new Deadline(ms, () => new Error('too late'))
  onTestFinished(() => deadline.close())
  return deadline
}
const never = new Promise<never>(() => undefined)
/** Keeps the event loop busy, so that no timer runs. */
const block = (ms: number) => {
  for (const until = performance.now() + ms; performance.now() < until; );
}

test('work in time returns its result or its error', async () => {
  const deadline = deadlineOf(60_000)
  expect(await deadline.run(async () => 'done')).toBe('done')
  await expect(deadline.run(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
})

test('work that does not end in time fails with the error of the deadline', async () => {
  const deadline = deadlineOf(5)
  const listener = vi.fn()
  deadline.onExpiry(listener)
  const error = await deadline.run(() => never).catch((caught: unknown) => caught)
  expect(error).toMatchObject({ message: 'too late' })
  expect(listener.mock.calls).toHaveLength(1)
  expect(listener.mock.calls[0]?.[0]).toBe(error)
  expect([deadline.isExpired, deadline.signal.aborted]).toEqual([true, true])
  expect(() => deadline.assertOpen()).toThrow('too late')
})

test('work does not begin after the deadline', async () => {
  const work = vi.fn(async () => undefined)
  await expect(deadlineOf(0).run(work)).rejects.toThrow('too late')
  expect(work).not.toHaveBeenCalled()
})

test('a known result replaces the error', async () => {
  const deadline = deadlineOf(5)
  deadline.fallback = () => 'known'
  expect(await deadline.run(() => never)).toBe('known')
})

test('a busy process detects that the time has expired before its timer runs', () => {
  const deadline = deadlineOf(5)
  block(10)
  expect(() => deadline.assertOpen()).toThrow('too late')
})

test('added time delays the expiry', () => {
  const deadline = deadlineOf(5)
  deadline.extend(60_000)
  block(10)
  expect(deadline.isExpired).toBe(false)
  expect(deadline.remainingMs).toBeGreaterThan(50_000)
})

test('the work has the deadline, until it is closed', async () => {
  const deadline = deadlineOf(60_000)
  const continued = await deadline.run(async () => {
    expect(currentDeadline()).toBe(deadline)
    expect(withoutDeadline(currentDeadline)).toBeUndefined()
    return { current: () => currentDeadline() }
  })
  expect(currentDeadline()).toBeUndefined()
  await deadline.run(async () => {
    deadline.close()
    expect(continued.current()).toBeUndefined()
  })
})

test('abandoned work keeps its expired deadline', async () => {
  const deadline = deadlineOf(5)
  const gate = Promise.withResolvers<void>()
  const seen = Promise.withResolvers<Deadline | undefined>()
  const work = deadline.run(async () => {
    await gate.promise
    seen.resolve(currentDeadline())
  })
  await expect(work).rejects.toThrow('too late')
  deadline.close()
  gate.resolve()
  expect(await seen.promise).toBe(deadline)
})
