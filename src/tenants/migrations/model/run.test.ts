import { expect, test } from 'vitest'
import {
  type MigrationRun,
  NO_COUNTS,
  progressOf,
  type RunRequest,
  resolveConflict,
  retryDelayMs,
  scopeOf,
} from './run.ts'

const UP: RunRequest = { direction: 'up', steps: null, scope: 'all', target: 'v7' }
const DOWN: RunRequest = { direction: 'down', steps: 1, scope: 'all', target: 'v7' }
const runOf = (request: RunRequest, isCancelled = false): MigrationRun => ({
  ...request,
  id: '0199d0b5-0000-7000-8000-000000000000',
  state: 'running',
  isCancelled,
  retries: 3,
  lockTimeoutMs: 10_000,
  stopAfterFailures: null,
  createdAt: new Date(0),
  finishedAt: null,
})

test.each<[string, MigrationRun, boolean, RunRequest, ReturnType<typeof resolveConflict>]>([
  ['the same, worked on', runOf(UP), true, UP, 'join'],
  ['the same, interrupted', runOf(UP), false, UP, 'join'],
  ['the same rollback', runOf(DOWN), false, DOWN, 'join'],
  ['other tenants, worked on', runOf(UP), true, { ...UP, scope: 'some' }, 'reject'],
  ['other tenants, interrupted', runOf(UP), false, { ...UP, scope: 'some' }, 'supersede'],
  ['another folder, worked on', runOf(UP), true, { ...UP, target: 'v8' }, 'reject'],
  ['another folder, interrupted', runOf(UP), false, { ...UP, target: 'v8' }, 'supersede'],
  ['a rollback meets an interrupted run', runOf(UP), false, DOWN, 'supersede'],
  ['a rollback meets a run', runOf(UP), true, DOWN, 'reject'],
  ['a run meets an interrupted rollback', runOf(DOWN), false, UP, 'reject'],
  ['other steps', runOf(DOWN), false, { ...DOWN, steps: 2 }, 'reject'],
  ['a cancelled one that has to end first', runOf(UP, true), true, UP, 'reject'],
  ['a cancelled one that was left', runOf(DOWN, true), false, DOWN, 'supersede'],
])('%s', (_, run, hasActiveWorker, request, outcome) => {
  expect(resolveConflict(run, hasActiveWorker, request)).toBe(outcome)
})

test('the same ids are the same scope in any order, and no other', () => {
  expect(scopeOf(['b', 'a'], false)).toBe(scopeOf(['a', 'b'], false))
  const scopes = [
    scopeOf(undefined, false),
    scopeOf(undefined, true),
    scopeOf(['a'], false),
    scopeOf(['a', 'b'], false),
  ]
  expect(new Set(scopes).size).toBe(scopes.length)
})

test('retries wait twice as long each time, and not for ever', () => {
  expect([1, 2, 3, 6, 50].map(retryDelayMs)).toEqual([1_000, 2_000, 4_000, 30_000, 30_000])
})

test('the estimate is of the pace in the last half minute', () => {
  const counts = { ...NO_COUNTS, done: 290, failed: 10, pending: 96, running: 4 }
  const at = (seconds: number, finished: number) => ({ atMs: seconds * 1_000, finished })
  expect(progressOf(counts, [at(0, 0), at(70, 100), at(90, 280), at(100, 300)])).toEqual({
    ...counts,
    total: 400,
    perSecond: 200 / 30,
    remainingSeconds: 15,
  })
  const unknown = { perSecond: null, remainingSeconds: null }
  expect(progressOf(counts, [at(100, 300)])).toMatchObject(unknown)
  expect(progressOf(counts, [at(90, 300), at(100, 300)])).toMatchObject(unknown)
  expect(progressOf({ ...NO_COUNTS, done: 5 }, [at(1, 5)])).toMatchObject({ total: 5, remainingSeconds: 0 })
})
