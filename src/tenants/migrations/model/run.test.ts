import { expect, test } from 'vitest'
import {
  defaultStopAfter,
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
  counts: null,
  isBackground: false,
  actor: null,
  requestId: null,
})

const waiting = { ...runOf(UP), isBackground: true }

test.each<[string, MigrationRun, boolean, RunRequest, ReturnType<typeof resolveConflict>]>([
  ['joins the same run with an active worker', runOf(UP), true, UP, 'join'],
  ['joins the same interrupted run', runOf(UP), false, UP, 'join'],
  ['joins the same rollback', runOf(DOWN), false, DOWN, 'join'],
  ['rejects other tenants while a worker is active', runOf(UP), true, { ...UP, scope: 'some' }, 'reject'],
  ['supersedes an interrupted run of other tenants', runOf(UP), false, { ...UP, scope: 'some' }, 'supersede'],
  ['rejects another folder while a worker is active', runOf(UP), true, { ...UP, target: 'v8' }, 'reject'],
  ['supersedes an interrupted run of another folder', runOf(UP), false, { ...UP, target: 'v8' }, 'supersede'],
  ['rejects other tenants while a run waits for a worker', waiting, false, { ...UP, scope: 'some' }, 'reject'],
  ['supersedes a run that waits for a worker of another release', waiting, false, { ...UP, target: 'v8' }, 'supersede'],
  ['a rollback supersedes an interrupted run', runOf(UP), false, DOWN, 'supersede'],
  ['a rollback is rejected while a run has an active worker', runOf(UP), true, DOWN, 'reject'],
  ['a run is rejected after an interrupted rollback', runOf(DOWN), false, UP, 'reject'],
  ['rejects a rollback of another number of steps', runOf(DOWN), false, { ...DOWN, steps: 2 }, 'reject'],
  ['rejects a run until the cancelled one has ended', runOf(UP, true), true, UP, 'reject'],
  ['supersedes a cancelled run without an active worker', runOf(DOWN, true), false, DOWN, 'supersede'],
])('a request during an unfinished run: %s', (_, run, hasActiveWorker, request, outcome) => {
  expect(resolveConflict(run, hasActiveWorker, request)).toBe(outcome)
})

test('the same ids in any order are the same scope, other ids are another scope', () => {
  expect(scopeOf(['b', 'a'], false)).toBe(scopeOf(['a', 'b'], false))
  const scopes = [
    scopeOf(undefined, false),
    scopeOf(undefined, true),
    scopeOf(['a'], false),
    scopeOf(['a', 'b'], false),
  ]
  expect(new Set(scopes).size).toBe(scopes.length)
})

test('a run stops by default at 1 % failures, at least 10, and a rollback does not stop', () => {
  expect([1, 10, 1_000, 1_001, 50_000].map((items) => defaultStopAfter('up', items))).toEqual([10, 10, 10, 11, 500])
  expect(defaultStopAfter('down', 50_000)).toBeNull()
})

test('the delay of retries doubles up to a maximum', () => {
  expect([1, 2, 3, 6, 50].map(retryDelayMs)).toEqual([1_000, 2_000, 4_000, 30_000, 30_000])
})

test('the estimate uses the pace of the last 30 seconds', () => {
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
