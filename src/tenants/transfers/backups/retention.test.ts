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

describe('a backup is due', () => {
  test.each<[string, Parameters<typeof isDue>[0], ScheduledBackup[], boolean]>([
    ['never without an interval', { keep: 2, everyHours: undefined }, [], false],
    ['when there is none', daily, [], true],
    ['when the last one is as old as the interval', daily, [ago(24)], true],
    ['not before', daily, [ago(23.99)], false],
    ['not while one is made, however long that takes', daily, [ago(48, 'running')], false],
    ['not while one waits', daily, [ago(48, 'pending')], false],
    ['an hour after a failure', daily, [ago(1, 'failed'), ago(25)], true],
    ['not sooner after a failure', daily, [ago(0.9, 'failed'), ago(25)], false],
    ['after a failure as soon as usual, when that is sooner', { keep: 1, everyHours: 0.5 }, [ago(0.5, 'failed')], true],
  ])('%s', (_, retention, backups, due) => {
    expect(isDue(retention, backups, NOW)).toBe(due)
  })
})

describe('kept no longer', () => {
  test.each<[string, ScheduledBackup[], string[]]>([
    ['none of as many as are kept', [ago(1), ago(25)], []],
    ['the oldest of more', [ago(1), ago(25), ago(49), ago(73)], ['completed 49 h ago', 'completed 73 h ago']],
    ['no success for what is not one yet', [ago(0, 'running'), ago(1), ago(25)], []],
    ['failures before the last success', [ago(0, 'failed'), ago(1), ago(2, 'failed')], ['failed 2 h ago']],
    [
      'all failures but the last, as long as nothing has succeeded',
      [ago(0, 'failed'), ago(1, 'failed')],
      ['failed 1 h ago'],
    ],
    ['not the last one, which is newer than the last success', [ago(0, 'failed'), ago(1)], []],
  ])('%s', (_, backups, gone) => {
    expect(expired(daily, backups)).toEqual(gone)
  })
})

test.each([
  [undefined, { keep: 7, everyHours: 24 }],
  [{}, { keep: 7, everyHours: 24 }],
  [{ everyHours: 4 }, { keep: 7, everyHours: 4 }],
  [{ keep: 2 }, { keep: 2, everyHours: 24 }],
  [{ everyHours: false as const }, { keep: 7, everyHours: undefined }],
])('a plan that says %o of backups', (ofPlan, retention) => {
  expect(retentionOf({ keep: 7, everyHours: 24 }, ofPlan)).toEqual(retention)
})
