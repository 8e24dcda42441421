import { describe, expect, test } from 'vitest'
import { settingsFindings } from '../doctor/processes.ts'
import type { ListedProcess } from './processes.ts'
import { differencesBetween, type ProcessSettings, settingText } from './settings.ts'

describe('differencesBetween', () => {
  const conflicts = (here: ProcessSettings, there: ProcessSettings) =>
    differencesBetween(here, there).map(({ setting, isConflict }) => [setting, isConflict])

  test.each<[string, ProcessSettings, ProcessSettings, boolean | undefined]>([
    ['store', { store: 'postgres' }, { store: 'redis a:6379/0' }, true],
    ['placement on another server', { 'placements.eu': '1/2' }, { 'placements.eu': '3/2' }, true],
    ['placement of one process', { 'placements.eu': '1/2' }, {}, false],
    ['placement that is unavailable', { 'placements.eu': '1/2' }, { 'placements.eu': null }, undefined],
    ['migration with another checksum', { 'migrations.0001': 'a' }, { 'migrations.0001': 'b' }, true],
    ['migration of one process', { 'migrations.0001': 'a' }, {}, false],
    ['driver of one process', { 'isolation.drivers.database-pg': '{}' }, {}, false],
    ['backup storage', { 'backups.storage': 'none' }, { 'backups.storage': 'directory /a' }, false],
    ['application key', { appKey: 'a' }, { appKey: 'b' }, true],
    ['application key that only one process knows', { appKey: 'b a' }, { appKey: 'a' }, true],
    ['application keys that both know', { appKey: 'b a' }, { appKey: 'a b' }, false],
    ['former application key', { appKey: 'a b' }, { appKey: 'a' }, undefined],
    ['equal settings', { store: 'postgres' }, { store: 'postgres' }, undefined],
  ])('a difference of the %s', (_, here, there, isConflict) => {
    expect(conflicts(here, there).map(([, is]) => is)).toEqual(isConflict === undefined ? [] : [isConflict])
    expect(conflicts(there, here)).toEqual(conflicts(here, there))
  })
})

test('settingText does not depend on the order of keys', () => {
  expect(settingText({ b: 1, a: { d: [2], c: undefined } })).toBe(settingText({ a: { d: [2] }, b: 1 }))
})

describe('settingsFindings', () => {
  const NOW = Date.parse('2026-01-01T12:00:00Z')
  const process = (name: string, minutes: number, settings: ProcessSettings, isLive = true) =>
    ({ name, role: 'api', settings, isLive, startedAt: new Date(NOW - minutes * 60_000) }) as ListedProcess

  test('reports a difference when both processes have run for 15 minutes, and a conflict immediately', () => {
    const found = (...all: ListedProcess[]) =>
      [...settingsFindings(all, NOW)].map(({ severity, code, message }) => [severity, code, message])
    const old = process('a:1', 60, { 'plans.getPlan': 'function', store: 'postgres' })
    expect(found(old, process('b:1', 14, { ...old.settings, 'plans.getPlan': 'metadata.plan' }))).toEqual([])
    const differing = process('b:1', 15, { ...old.settings, 'plans.getPlan': 'metadata.plan' })
    const words = (setting: string) => `the setting ${setting} differs between running processes: a:1 (api), b:1 (api)`
    expect(found(old, differing)).toEqual([['warn', 'processes.settings', words('plans.getPlan')]])
    expect(found(old, process('b:1', 0, { ...old.settings, store: 'memory' }))).toEqual([
      ['error', 'processes.settings', words('store')],
    ])
    expect(found(old, process('b:1', 60, { store: 'memory' }, false))).toEqual([])
  })
})
