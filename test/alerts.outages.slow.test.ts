/** Alerts of a real Prometheus while PostgreSQL and Redis are stopped. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { commandOf, stopPostmaster } from '../src/service/postmaster.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { type Drill, openDrill } from './alerts.fixture.ts'
import { type RedisServer, startRedisServer } from './support/redis-server.ts'

/** Burn-rate alerts need at least 10 failed requests. */
const MANY = 30

let directory: string
let postgres: EmbeddedPostgres
let redis: RedisServer
let drill: Drill

const options = () => ({ directory: join(directory, 'postgres'), password: 'p', settings: { fsync: 'off' } })

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-outages-'))
  ;[postgres, redis] = await Promise.all([startEmbeddedPostgres(options()), startRedisServer()])
  drill = await openDrill({ databaseUrl: postgres.url, env: { REDIS_URL: redis.url } })
}, 240_000)
afterAll(async () => {
  const server = await startEmbeddedPostgres(options())
  await drill?.end()
  await server.stop()
  await redis?.stop()
  await rm(directory, { recursive: true, force: true })
})

test('a stopped PostgreSQL fires TenantryDatabaseUnavailable only, and its start resolves it', async () => {
  const [program = '', ...args] = commandOf(postgres.pid).split(' ')
  const failed = await drill.run(
    'TenantryDatabaseUnavailable',
    () => stopPostmaster(options().directory, postgres.pid, () => undefined),
    async () => {
      const programs = await findPostgresPrograms(options().directory)
      programs.spawn(program, args, { detached: true, stdio: 'ignore' }).unref()
      await eventually(() => drill.service.tenancy.kernel.database.ping())
    },
  )
  expect(failed).toBeGreaterThan(MANY)
}, 240_000)

test('a stopped Redis fires TenantryStoreUnavailable, and its start resolves it', async () => {
  await drill.run(
    'TenantryStoreUnavailable',
    () => redis.kill(),
    () => redis.start(),
  )
}, 240_000)
