import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { createTestDatabase, type TestDatabase, unreachableUrl } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database, SCHEMA, type Session } from '../database/database.ts'
import { migrateLocked } from '../database/migrations.ts'
import { kernelPart } from '../parts.ts'
import { holderOf, isAlive, type ProcessDescription, Processes } from './processes.ts'
import { type ProcessSettings, SettingsConflict } from './settings.ts'

const log = createLogger({ level: 'silent' })
const migrateKernel = (client: Session) =>
  migrateLocked(client, [{ part: 'kernel', migrations: kernelPart.tables ?? [] }])
let created: TestDatabase
let database: Database
beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 2 }, log)
  await database.session(migrateKernel)
})
afterAll(async () => {
  await database.close()
  await created.drop()
})

function processOf(url = created.url, description: Partial<ProcessDescription> = {}, logger = log): Processes {
  const own = new Database({ url, max: 1 }, logger)
  const processes = new Processes(
    own,
    logger,
    { role: 'api', version: '1.2.3', settings: {}, ...description },
    { heartbeatMs: 10, retryMs: 10 },
  )
  onTestFinished(async () => {
    await processes.stop()
    await own.close()
  })
  return processes
}
async function started(settings: ProcessSettings = {}): Promise<Processes> {
  const processes = processOf(created.url, { settings })
  await processes.start(migrateKernel)
  return processes
}
const rowOf = async ({ id }: Processes) =>
  (await database.sql(`select * from ${SCHEMA}.processes where id = $1`, [id])).rows[0]
const alive = async ({ id }: Processes): Promise<boolean> =>
  (await database.sql(`select ${isAlive('$1')} as alive`, [id])).rows[0].alive

test('a started process has a row with a heartbeat, and is alive', async () => {
  const processes = await started()
  const row = await rowOf(processes)
  expect(row).toMatchObject({ role: 'api', version: '1.2.3', name: expect.stringMatching(`:${process.pid}$`) })
  expect(await alive(processes)).toBe(true)
  await eventually(async () => {
    const { started_at, heartbeat_at } = await rowOf(processes)
    expect(started_at).toEqual(row.started_at)
    expect(heartbeat_at.getTime()).toBeGreaterThan(row.heartbeat_at.getTime())
  })
})

test('a stopped process has no row, and is not alive', async () => {
  const [processes, other] = [await started(), await started()]
  await processes.stop()
  expect(await rowOf(processes)).toBeUndefined()
  expect([await alive(processes), await alive(other)]).toEqual([false, true])
})

test('a process that loses its session is alive again on another one', async () => {
  const processes = await started()
  const holder = async () => (await database.sql(holderOf('$1'), [processes.id])).rows[0]?.pid
  const first = await holder()
  const { started_at } = await rowOf(processes)
  await database.sql('select pg_terminate_backend($1)', [first])
  await eventually(async () => expect([undefined, first]).not.toContain(await holder()))
  expect(await rowOf(processes)).toMatchObject({ started_at })
})

test('a session that is lost during the stop has no line in the log', async () => {
  const lines: string[] = []
  const processes = processOf(created.url, {}, createLogger({ level: 'warn', write: (line) => void lines.push(line) }))
  await processes.start(migrateKernel)
  await database.transaction(async () => {
    await database.sql(`select from ${SCHEMA}.processes where id = $1 for update`, [processes.id])
    const stopping = processes.stop()
    const isWaiting = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await eventually(async () => expect((await database.sql(isWaiting)).rows).toHaveLength(1))
    await database.sql(`select pg_terminate_backend(pid) from (${isWaiting}) waiting`)
    await stopping
  })
  expect(lines.filter((line) => line.includes('the session that records this process'))).toEqual([])
})

test('a process is not started while the database is unavailable', async () => {
  await expect(processOf(unreachableUrl(created.url)).start(migrateKernel)).rejects.toThrow('ECONNREFUSED')
})

test('a start removes the rows of processes without a heartbeat for a day', async () => {
  const processes = await started()
  await database.sql(`insert into ${SCHEMA}.processes (id, name, role, version, settings, heartbeat_at) values
    (gen_random_uuid(), 'a day ago', 'api', '1', '{}', now() - interval '25 hours'),
    (gen_random_uuid(), 'today', 'api', '1', '{}', now() - interval '1 hour')`)
  await started()
  const { rows } = await database.sql(`select name from ${SCHEMA}.processes where name like '%day%'`)
  expect(rows.map(({ name }) => name)).toEqual(['today'])
  expect(await alive(processes)).toBe(true)
})

describe('comparison of settings', () => {
  const settings = { store: 'postgres', 'migrations.0001': 'a', 'plans.definitions.free': '{}' }
  const conflict = (promise: Promise<void>) => expect(promise).rejects.toSatisfy(SettingsConflict.matches)

  test('a conflict with a live process prevents the start before the migration, and leaves no row', async () => {
    const processes = await started(settings)
    let isMigrated = false
    for (const other of [{ store: 'redis a:6379/0' }, { 'migrations.0001': 'b' }]) {
      const second = processOf(created.url, { settings: { ...settings, ...other } })
      await conflict(
        second.start(async () => {
          isMigrated = true
        }),
      )
      expect(await rowOf(second)).toBeUndefined()
    }
    expect(isMigrated).toBe(false)
    await processes.stop()
    await started({ ...settings, store: 'redis a:6379/0' })
  })

  test('another difference is a warning, and prevents the start of a process that needs the same settings', async () => {
    await started(settings)
    const lines: string[] = []
    const other = { ...settings, 'migrations.0002': 'b', 'plans.definitions.free': '{"limits":{}}' }
    const second = processOf(
      created.url,
      { settings: other },
      createLogger({ level: 'warn', write: (line) => void lines.push(line) }),
    )
    await second.start(migrateKernel)
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      {
        msg: 'a running process has other settings; this is valid only during a deployment',
        differences: ['migrations.0002: b here, absent there', 'plans.definitions.free: {"limits":{}} here, {} there'],
      },
    ])
    const { differences } = (await second.list()).find(({ isThis, isLive }) => isLive && !isThis) ?? {}
    expect(differences).toEqual([
      { setting: 'migrations.0002', here: 'b', there: null, isConflict: false },
      { setting: 'plans.definitions.free', here: '{"limits":{}}', there: '{}', isConflict: false },
    ])
    await conflict(processOf(created.url, { settings: other, needsSameSettings: true }).start(migrateKernel))
    await second.stop()
    const newer = { ...settings, 'migrations.0002': 'b' }
    const deploying = { needsSameSettings: 'but new migrations' } as const
    await conflict(processOf(created.url, { settings: other, ...deploying }).start(migrateKernel))
    await processOf(created.url, { settings: newer, ...deploying }).start(migrateKernel)
  })

  test('the row of a dead process never prevents a start: without its lock, or without a heartbeat for 30 s', async () => {
    await database.sql(`insert into ${SCHEMA}.processes (id, name, role, version, settings)
      values (gen_random_uuid(), 'killed', 'api', '1', '{"store":"another"}')`)
    const paused = await started({ store: 'another' })
    await database.sql(`select pg_terminate_backend(pid) from (${holderOf('$1')}) holder`, [paused.id])
    await paused.stop()
    const stale = crypto.randomUUID()
    await database.sql(
      `insert into ${SCHEMA}.processes (id, name, role, version, settings, heartbeat_at)
       values ($1, 'stale', 'api', '1', '{"store":"another"}', now() - interval '31 seconds')`,
      [stale],
    )
    await database.session(async (client) => {
      await client.query(`select pg_advisory_lock_shared(hashtextextended('tenantry process ' || $1::text, 0))`, [
        stale,
      ])
      await (await started({ store: 'postgres' })).stop()
    })
  })

  test('of concurrent first starts with conflicting settings, one succeeds', async () => {
    const empty = await createTestDatabase(inject('postgresUrl'))
    onTestFinished(() => empty.drop())
    const all = Array.from({ length: 10 }, (_, n) => processOf(empty.url, { settings: { store: `store ${n}` } }))
    const results = await Promise.allSettled(all.map((one) => one.start(migrateKernel)))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const result of results) {
      if (result.status === 'rejected') expect(SettingsConflict.matches(result.reason)).toBe(true)
    }
    await Promise.all(all.map((one) => one.stop()))
  })
})
