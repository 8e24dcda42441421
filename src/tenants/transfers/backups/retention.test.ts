import { describe, expect, test } from 'vitest'
import { expired, isDue, type ScheduledBackup } from './retention.ts'
import { retentionOf } from './scheduler.ts'

const NOW = new Date('2026-06-01T12:00:00Z')
const ago = (hours: number, state: ScheduledBackup['state'] = 'completed', id = `${state} ${hours} h ago`) => ({
  id,
  state,
  createdAt: new Date(NOW.getTime() - hours * 3_600_000),
})
const daily = { keep: 2, everyHours: 24 }

describe('isDue', () => {
  test.each<[string, Parameters<typeof isDue>[0], ScheduledBackup[], boolean]>([
    ['not due without an interval', { keep: 2, everyHours: undefined }, [], false],
    ['due without an earlier backup', daily, [], true],
    ['due if the last backup is as old as the interval', daily, [ago(24)], true],
    ['not due if the last backup is newer than the interval', daily, [ago(23.99)], false],
    ['not due while a backup is running, regardless of its age', daily, [ago(48, 'running')], false],
    ['not due while a backup is pending', daily, [ago(48, 'pending')], false],
    ['due one hour after a failure', daily, [ago(1, 'failed'), ago(25)], true],
    ['not due sooner than one hour after a failure', daily, [ago(0.9, 'failed'), ago(25)], false],
    [
      'due after the interval following a failure, if that is less than one hour',
      { keep: 1, everyHours: 0.5 },
      [ago(0.5, 'failed')],
      true,
    ],
  ])('a backup is %s', (_, retention, backups, due) => {
    expect(isDue(retention, backups, NOW)).toBe(due)
  })
})

describe('expired', () => {
  test.each<[string, ScheduledBackup[], string[]]>([
    ['none up to the configured number', [ago(1), ago(25)], []],
    [
      'the oldest backups beyond the configured number',
      [ago(1), ago(25), ago(49), ago(73)],
      ['completed 49 h ago', 'completed 73 h ago'],
    ],
    ['none while a running backup would exceed the number', [ago(0, 'running'), ago(1), ago(25)], []],
    ['failures before the last success', [ago(0, 'failed'), ago(1), ago(2, 'failed')], ['failed 2 h ago']],
    [
      'all failures except the newest one, before the first success',
      [ago(0, 'failed'), ago(1, 'failed')],
      ['failed 1 h ago'],
    ],
    ['not the newest failure, if it is newer than the last success', [ago(0, 'failed'), ago(1)], []],
  ])('expires %s', (_, backups, gone) => {
    expect(expired(daily, backups)).toEqual(gone)
  })
})

test.each([
  [undefined, { keep: 7, everyHours: 24 }],
  [{}, { keep: 7, everyHours: 24 }],
  [{ everyHours: 4 }, { keep: 7, everyHours: 4 }],
  [{ keep: 2 }, { keep: 2, everyHours: 24 }],
  [{ everyHours: false as const }, { keep: 7, everyHours: undefined }],
])('retentionOf merges backup options %o of a plan with the settings', (ofPlan, retention) => {
  expect(retentionOf({ keep: 7, everyHours: 24 }, ofPlan)).toEqual(retention)
})
