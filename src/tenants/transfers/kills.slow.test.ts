/**
 * Transfers in killed processes.
 *
 * A transfer writes each phase to its row before it starts the phase. A trigger on that row waits for a lock of the
 * test. When it waits, the test kills the process with SIGKILL and terminates its session, so the write does not
 * happen.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import { toLocation } from '../registry/registry.ts'
import type { Transfer } from './model/transfer.ts'
import { idle, NOTES, openProcessesEnvironment, type ProcessesEnvironment, send } from './transfer-processes.fixture.ts'

const LOCK = 4_004

let environment: ProcessesEnvironment
/** A separate connection: changes of the test to the row must not wait for the lock of the test. */
let database: Database

beforeAll(async () => {
  environment = await openProcessesEnvironment(inject('postgresUrl'))
  database = new Database({ url: environment.url }, createLogger({ level: 'silent' }))
  await database.sql(`
    create table pause_at (phase text);
    create function pause() returns trigger language plpgsql as $$ begin
      if new.phase is distinct from old.phase and new.phase in (select phase from pause_at) then
        perform pg_advisory_xact_lock(${LOCK});
      end if;
      return new;
    end $$;
    create trigger pause before update on multitenancy.transfers for each row execute function pause()`)
})
afterAll(async () => {
  await database?.close()
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
      await killedAt(phase, started.id)

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
      await database.sql(`update multitenancy.transfers set lease_until = now() - interval '1 hour' where id = $1`, [
        started.id,
      ])
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

/** Starts a process that carries out the transfer, and kills it when it writes this phase. */
async function killedAt(phase: string, transferId: string): Promise<void> {
  const child = await environment.start()
  const holder = new AbortController()
  const held = Promise.withResolvers<void>()
  const holding = database.session(async (client) => {
    await client.query('insert into pause_at values ($1)', [phase])
    await client.query('select pg_advisory_lock($1)', [LOCK])
    held.resolve()
    await new Promise((resolve) => holder.signal.addEventListener('abort', resolve))
    await client.query('delete from pause_at')
  })
  await held.promise
  try {
    const ended = send(child, { work: transferId }).then((result) => {
      throw new Error(`the transfer ended before phase ${phase}: ${JSON.stringify(result)}`)
    })
    ended.catch(() => undefined) // kill the process
    const waits = eventually(async () => {
      const waiting = await database.sql(
        `select pid from ${WAITING_LOCKS} where locktype = 'advisory' and objid = ${LOCK}`,
      )
      expect(waiting.rows).toHaveLength(1)
      return waiting
    }, 30_000)
    const { rows } = await Promise.race([waits, ended])
    await child.kill('SIGKILL')
    const [{ pid }] = rows
    // Otherwise, a renewal that waits for this session would follow: the server does not know that the process has ended.
    await database.sql('select pg_terminate_backend(pid) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [
      pid,
    ])
    await database.sql('select pg_terminate_backend($1)', [pid])
  } finally {
    holder.abort()
    await holding
  }
}
