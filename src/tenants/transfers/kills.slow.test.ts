/** Transfers in killed processes. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { ISOLATIONS } from '../../../test/support/two-servers.ts'
import type { Database } from '../../kernel/database/database.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import { toLocation } from '../registry/registry.ts'
import { type Killer, openKiller } from './kills.fixture.ts'
import type { Transfer } from './model/transfer.ts'
import { idle, NOTES, openProcessesEnvironment, type ProcessesEnvironment } from './transfer-processes.fixture.ts'

let environment: ProcessesEnvironment
let killer: Killer
let database: Database

beforeAll(async () => {
  environment = await openProcessesEnvironment(inject('postgresUrl'))
  killer = await openKiller(environment.url, () => environment.start())
  database = killer.database
})
afterAll(async () => {
  await killer?.close()
  await environment?.end()
})

const api = () => environment.tenancy.tenants

type Kind = Transfer['kind']

/** Starts a transfer of each kind, after its preparation. */
const BEGIN: Readonly<Record<Kind, (id: string) => Promise<{ tenantId: string; id: string }>>> = {
  backup: (id) => environment.transfers.backups.create(id),
  restore: async (id) => (await environment.transfers.backups.restore(id, { backupId: await backedUp(id) })).transfer,
  rehearsal: async (id) =>
    (await environment.transfers.backups.restore(id, { backupId: await backedUp(id), rehearse: true })).transfer,
  clone: async (id) => (await environment.transfers.clone(id, { id: `${id}-copy`, name: 'A copy' })).transfer,
  move: async (id) => (await environment.transfers.move(id, { placement: 'other' })).transfer,
  undo: async (id) => {
    const { transfer } = await environment.transfers.move(id, { placement: 'other' })
    await environment.transfers.work(transfer.id, idle)
    return (await environment.transfers.move(id, { undo: true })).transfer
  },
}

/** Regardless of a fence. */
const textsIn = (driver: IsolationDriver, location: StorageLocation): Promise<string[]> =>
  driver.export(
    location,
    async (copy) => {
      let text = ''
      for await (const { csv } of copy.tables()) for await (const piece of csv) text += piece
      return text.match(/note \d+/g) ?? []
    },
    { signal: idle.signal },
  )

async function backedUp(id: string): Promise<string> {
  const backup = await environment.transfers.backups.create(id)
  await environment.transfers.work(backup.id, idle)
  return backup.id
}

type Isolation = (typeof ISOLATIONS)[number]

/**
 * Each kind on each isolation, and each phase where it differs: `switching` and `closing` by kind, `making` and
 * `loading` by isolation. The other phases of filling storage are the same code for each kind. At `done` the shared
 * tables have changed, and the registry has not.
 */
const CASES: readonly { kind: Kind; isolation: Isolation; phase: string }[] = [
  { kind: 'backup', isolation: 'schema-pg', phase: 'switching' },
  { kind: 'backup', isolation: 'rowscope-pg', phase: 'writing' },
  { kind: 'backup', isolation: 'database-pg', phase: 'writing' },
  { kind: 'restore', isolation: 'schema-pg', phase: 'making' },
  { kind: 'restore', isolation: 'rowscope-pg', phase: 'loading' },
  { kind: 'restore', isolation: 'rowscope-pg', phase: 'done' },
  { kind: 'restore', isolation: 'database-pg', phase: 'switching' },
  { kind: 'rehearsal', isolation: 'schema-pg', phase: 'verifying' },
  { kind: 'rehearsal', isolation: 'rowscope-pg', phase: 'making' },
  { kind: 'rehearsal', isolation: 'database-pg', phase: 'loading' },
  { kind: 'clone', isolation: 'schema-pg', phase: 'indexing' },
  { kind: 'clone', isolation: 'rowscope-pg', phase: 'switching' },
  { kind: 'clone', isolation: 'database-pg', phase: 'making' },
  { kind: 'move', isolation: 'schema-pg', phase: 'migrating' },
  { kind: 'move', isolation: 'schema-pg', phase: 'loading' },
  { kind: 'move', isolation: 'rowscope-pg', phase: 'closing' },
  { kind: 'move', isolation: 'database-pg', phase: 'switching' },
  { kind: 'undo', isolation: 'schema-pg', phase: 'migrating' },
  { kind: 'undo', isolation: 'rowscope-pg', phase: 'switching' },
  { kind: 'undo', isolation: 'database-pg', phase: 'closing' },
]

describe('a killed process', () => {
  test.each(CASES)(
    'leaves a $kind on $isolation, interrupted in phase $phase, to the next process',
    async ({ isolation, kind, phase }) => {
      const id = `${kind}-${phase}-${isolation.slice(0, 3)}`
      await environment.install(id, isolation)
      const started = await BEGIN[kind](id)
      await killer.killedAt(phase, started.id)

      // Nothing has changed: no data is lost, and no partial result is published.
      const before = (await environment.transfers.get(started.tenantId, started.id)).state
      expect(before).toBe('running')
      const backups = await environment.transfers.backups.list(id, { limit: 50 })
      for (const one of backups.data) expect(one.state === 'completed').toBe(one.sizeBytes !== null)
      if (kind === 'move' || kind === 'undo') {
        // The tenant is closed until the next attempt, and its storage is unchanged.
        const source = toLocation(await api().registry.row(id))
        const driver = api().storage.driver(source.isolation)
        expect(await textsIn(driver, source)).toEqual(NOTES)
        if (phase !== 'closing') {
          expect((await api().get(id)).maintenance).not.toBeNull()
          expect(await driver.isFenced(source)).toBe(true)
        }
      } else if (phase !== 'done') {
        expect(await environment.notes(id)).toEqual(NOTES) // at `done` the next attempt starts after the change of the shared tables
      }

      // Its lease expires, and another process starts from the beginning.
      await killer.expire(started.id)
      await environment.transfers.work(started.id, idle)
      expect(await environment.transfers.get(started.tenantId, started.id)).toMatchObject({
        state: 'completed',
        failure: null,
        attempts: 2,
      })
      expect(await environment.notes(id)).toEqual(NOTES)
      if (kind === 'clone') expect(await environment.notes(`${id}-copy`)).toEqual(NOTES)
      expect(await api().get(id)).toMatchObject({ status: 'active', maintenance: null })

      await environment.transfers.recover()
      const { rows: left } = await database.sql(`select from multitenancy.storage_locations where state <> 'former'`)
      expect(left).toEqual([])
      for (const driver of api().storage.drivers) {
        for (const placement of ['main', 'other'])
          expect(await Array.fromAsync(api().reconciliation.mismatches(driver, placement))).toEqual([])
      }
      const kept = await database.sql(`select archive from multitenancy.backups where archive is not null`)
      expect((await environment.files()).sort()).toEqual(kept.rows.map(({ archive }) => archive).sort())
    },
  )
})
