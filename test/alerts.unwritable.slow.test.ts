/** Alerts of a real Prometheus while PostgreSQL is read-only, and while its disk is full. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Drill, openDrill } from './alerts.fixture.ts'
import { createSmallDisk, type SmallDisk } from './support/small-disk.ts'
import { type Server, startServer } from './unwritable.fixture.ts'

/** Burn-rate alerts need at least 10 failed requests. */
const MANY = 30

let server: Server
let disk: SmallDisk
let drill: Drill

beforeAll(async () => {
  server = await startServer()
  disk = await createSmallDisk()
  await server.sql(`create tablespace small location '${disk.tablespace}'`)
  await server.sql('create database backoffice tablespace small')
  drill = await openDrill({ databaseUrl: server.urlOf('backoffice') })
}, 240_000)
afterAll(async () => {
  await drill?.end()
  await server?.end()
  await disk?.remove()
})

async function setReadOnly(value: 'on' | 'off'): Promise<void> {
  await server.sql(`alter system set default_transaction_read_only = ${value}`)
  await server.sql('select pg_reload_conf()')
}

test('a read-only PostgreSQL fires TenantryDatabaseUnavailable only, and its end resolves it', async () => {
  const failed = await drill.run(
    'TenantryDatabaseUnavailable',
    () => setReadOnly('on'),
    () => setReadOnly('off'),
  )
  expect(failed).toBeGreaterThan(MANY)
}, 240_000)

test('a full disk fires TenantryDatabaseUnavailable only, and free space resolves it', async () => {
  const failed = await drill.run(
    'TenantryDatabaseUnavailable',
    () => disk.fill(),
    () => disk.free(),
  )
  expect(failed).toBeGreaterThan(MANY)
}, 240_000)
