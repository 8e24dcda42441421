/** One stream: its comments, and a reader that does not read. */
import { describe, expect, test } from 'vitest'
import { asSystem, type Grant } from '../../kernel/base/context.ts'
import { ActivityStream, type Position } from './stream.ts'

const START = { id: 'start' }
const grant: Grant = { bounds: [['admin']], operations: new Set(), tenants: null, expiresAt: null }

function openStream({ commentMs = 60_000, isPermitted = (): boolean => true } = {}) {
  const ended: ActivityStream[] = []
  const stream = new ActivityStream(START, [], {
    mayRead: (_, { tenantId }) => tenantId !== 'hidden',
    currentGrant: () => asSystem(async () => (isPermitted() ? grant : undefined)),
    commentMs,
    onEnd: (one) => ended.push(one),
  })
  return { stream, ended }
}

const position = (id: string, tenantId: string | null = null): Position => ({
  id,
  change: { id, action: 'tenants.update', tenantId, target: 'tenant:acme', at: '2027-01-01T00:00:00.000Z' },
})
const textOf = async (stream: ActivityStream) => (await stream.next()).value

describe('ActivityStream', () => {
  test('a comment has the id of the last change, also of one that the caller may not read', async () => {
    const { stream } = openStream({ commentMs: 1 })
    expect(await textOf(stream)).toBe('retry: 2000\nid: start\n\n')
    expect(await textOf(stream)).toBe(': \nid: start\n\n')
    stream.push(position('one', 'hidden'))
    expect(await textOf(stream)).toBe(': \nid: one\n\n')
  })

  test('a reader with too many unread changes receives a gap in place of them', async () => {
    const { stream } = openStream()
    await stream.next()
    for (let n = 1; n <= 1_001; n++) stream.push(position(`${n}`))
    stream.push(position('last'))
    expect(await textOf(stream)).toMatch(/^id: 1001\nevent: gap\ndata: {}\n\nid: last\nevent: change\ndata: .*\n\n$/)
  })

  test('a stream whose permission ends while its reader waits ends with the next check', async () => {
    let isPermitted = true
    const { stream, ended } = openStream({ isPermitted: () => isPermitted })
    await stream.next()
    stream.push(position('one'))
    expect(await textOf(stream)).toContain('id: one')
    const waiting = stream.next()
    isPermitted = false
    stream.check()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(ended).toEqual([stream])
    expect(await stream.next()).toEqual({ done: true, value: undefined })
  })

  test('a closed stream ends the wait of its reader', async () => {
    const { stream, ended } = openStream()
    await stream.next()
    const waiting = stream.next()
    await stream.return()
    expect((await waiting).done).toBe(true)
    expect(ended).toEqual([stream])
  })
})
