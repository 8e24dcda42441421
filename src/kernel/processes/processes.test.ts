import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { createTestDatabase, type TestDatabase, unreachableUrl } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database, SCHEMA } from '../database/database.ts'
import { migrate } from '../database/migrations.ts'
import { kernelPart } from '../parts.ts'
import { holderOf, isAlive, Processes } from './processes.ts'

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 2 }, log)
  await migrate(database, [{ part: 'kernel', migrations: kernelPart.tables ?? [] }])
})
afterAll(async () => {
  await database.close()
  await created.drop()
})

function processOf(url = created.url, ownLog = log): Processes {
  const own = new Database({ url, max: 1 }, ownLog)
  const processes = new Processes(own, ownLog, { role: 'api', version: '1.2.3' }, { heartbeatMs: 10, retryMs: 10 })
  onTestFinished(async () => {
    await processes.stop()
    await own.close()
  })
  return processes
}
async function started(): Promise<Processes> {
  const processes = processOf()
  await processes.start()
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
  const processes = processOf(created.url, createLogger({ level: 'warn', write: (line) => void lines.push(line) }))
  await processes.start()
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
  await expect(processOf(unreachableUrl(created.url)).start()).rejects.toThrow('ECONNREFUSED')
})

test('a start removes the rows of processes without a heartbeat for a day', async () => {
  const processes = await started()
  await database.sql(`insert into ${SCHEMA}.processes (id, name, role, version, heartbeat_at) values
    (gen_random_uuid(), 'a day ago', 'api', '1', now() - interval '25 hours'),
    (gen_random_uuid(), 'today', 'api', '1', now() - interval '1 hour')`)
  await started()
  const { rows } = await database.sql(`select name from ${SCHEMA}.processes where name like '%day%'`)
  expect(rows.map(({ name }) => name)).toEqual(['today'])
  expect(await alive(processes)).toBe(true)
})
