/** Matching of the palette, differences, calls as commands: functions without a browser. */
import { describe, expect, test } from 'vitest'
import { commandsOf, ranked, score } from '../../src/console/keys/match.ts'

describe('matching of the palette', () => {
  test.each([
    ['tenants', 'ten', 'ant'],
    ['Suspend Acme Corp', 'sus ac', 'pend'],
    ['Feature flags', 'ff', 'flagsx'],
    ['Acme', 'ACME', 'cme'],
  ])('%s matches %s better than %s', (title, better, worse) => {
    expect(score(better, title)).toBeGreaterThan(score(worse, title))
    expect(score(better, title)).toBeGreaterThan(0)
  })

  test('the beginning of an id matches', () => {
    expect(score('t1_ac', 'Acme Corp', 't1_acme')).toBeGreaterThan(0)
    expect(score('_acme', 'Globex', 't1_acme')).toBe(0)
  })

  test('equal matches keep their order, and others are left out', () => {
    const titles = ['Deliveries', 'Delete', 'System'].map((title) => ({ title }))
    expect(ranked('del', titles).map(({ title }) => title)).toEqual(['Deliveries', 'Delete'])
  })

  test('each split of the words is a command and an object', () => {
    expect(commandsOf('end maintenance acme')).toEqual([
      { command: 'end', object: 'maintenance acme' },
      { command: 'end maintenance', object: 'acme' },
    ])
    expect(commandsOf('acme')).toEqual([])
  })
})
