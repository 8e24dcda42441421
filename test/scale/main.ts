/**
 * `npm run test:scale [-- --schemas 1000 --databases 100]`: creates, uses, migrates, deletes and purges many tenants on
 * one server, and samples the connections and memory of the server. Exits with 1 if a budget is exceeded, a step is
 * incomplete, or an object is left.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createTenancy, databasePg, schemaPg, type Tenancy, type TenantMigration } from '../../src/index.ts'
import { forEachConcurrent } from '../../src/kernel/base/concurrency.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { startEmbeddedPostgres } from '../../src/service/embedded-postgres.ts'
import { TenantMigrated } from '../../src/tenants/tenant/events.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { dropWithRoles } from '../../src/testing/base/roles.ts'
import { eventually, TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { Left } from './left.ts'
import { Sampler } from './sampler.ts'

const BUDGET = 20
const CREATED_AT_ONCE = 16
const READ_AT_ONCE = 40
const MIGRATED_AT_ONCE = 4
const LONGEST_STEP_MS = 3_600_000

const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: `create table authors (id bigint generated always as identity primary key, name text not null unique);
    create table notes (id bigint generated always as identity primary key, author_id bigint references authors, title text not null);
    create index on notes (author_id)`,
}
const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: `alter table notes add column pinned boolean not null default false;
    create table tags (note_id bigint references notes on delete cascade, tag text not null, primary key (note_id, tag))`,
}

const { values } = parseArgs({
  options: { schemas: { type: 'string', default: '1000' }, databases: { type: 'string', default: '100' } },
})
const wanted = { 'schema-pg': Number(values.schemas), 'database-pg': Number(values.databases) }
const ids = Object.entries(wanted).flatMap(([isolation, count]) =>
  Array.from({ length: count }, (_, n) => ({ isolation, id: `${isolation}-${n}` })),
)

const directory = mkdtempSync(join(tmpdir(), 'tenantry-scale-'))
const server = await startEmbeddedPostgres({
  directory: join(directory, 'postgres'),
  password: 'scale',
  settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '80' },
})
try {
  await live(server.url)
} finally {
  await server.stop()
  rmSync(directory, { recursive: true, force: true })
}

async function live(serverUrl: string): Promise<void> {
  const database = await createTestDatabase(serverUrl)
  const sampler = await Sampler.start(serverUrl, { 'tenant login': BUDGET })
  try {
    let tenancy = await open(database.url, [NOTES])
    for (const { inventory } of tenancy.tenants.storage.drivers) await inventory?.('main') // creates objects that a server needs once
    const left = await Left.before(database.url)
    const step = async (name: string, work: () => Promise<void>) => {
      sampler.begin(name)
      await work()
      console.log(sampler.summary())
    }
    await step('create', () => create(tenancy))
    await step('use', () => use(tenancy, 'insert into notes (title) values ($1) returning title'))

    await tenancy.stop()
    tenancy = await open(database.url, [NOTES, TAGS])
    await step('migrate', () => migrate(tenancy))
    await step('use again', () => use(tenancy, 'update notes set pinned = true where title = $1 returning title'))
    await step('purge', () => purge(tenancy))
    const found = await left.found()
    await tenancy.stop()

    for (const fault of [...sampler.faults, ...found]) console.log(`FAULT ${fault}`)
    if (sampler.faults.length + found.length > 0) process.exitCode = 1
    else console.log(`nothing is left, and no budget was exceeded in ${sampler.count} samples`)
  } finally {
    await sampler.stop()
    await dropWithRoles(serverUrl, database)
  }
}

function open(url: string, migrations: readonly TenantMigration[]): Promise<Tenancy> {
  return createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), databasePg()],
    placements: { main: { connections: { max: BUDGET, queuePerTenant: READ_AT_ONCE, waitMs: 60_000 } } },
    migrations,
    tenants: { retentionDays: 0 },
    logger: createLogger({ level: 'error' }),
  })
}

async function create({ tenants }: Tenancy): Promise<void> {
  await forEachConcurrent(ids, CREATED_AT_ONCE, async ({ id, isolation }) => {
    await tenants.create({ id, name: id, isolation })
    const { status, failure } = await tenants.waitUntilInstalled(id, AbortSignal.timeout(LONGEST_STEP_MS))
    if (status !== 'active') throw new Error(`${id} is ${status}: ${failure?.message}`)
  })
}

/** Each tenant runs a statement, over far fewer connections than tenants. */
async function use(tenancy: Tenancy, statement: string): Promise<void> {
  await forEachConcurrent(ids, READ_AT_ONCE, async ({ id }) => {
    const { pool } = await tenancy.tenant(id)
    await pool.query(statement, [`of ${id}`])
    const { rows } = await pool.query('select title from notes')
    if (rows.length !== 1 || rows[0].title !== `of ${id}`) throw new Error(`${id} reads ${JSON.stringify(rows)}`)
  })
}

/** Interrupts a migration run and continues it; the report covers all tenants. */
async function migrate({ tenants, on }: Tenancy): Promise<void> {
  const stop = new AbortController()
  let migrated = 0
  on(TenantMigrated, () => {
    migrated++
    if (migrated >= ids.length / 3) stop.abort()
  })
  const started = await tenants.migrations.run({ concurrency: MIGRATED_AT_ONCE, signal: stop.signal })
  if (started.state !== 'running' || started.running > 0 || started.pending + started.done !== ids.length) {
    throw new Error(
      `the interrupted run is ${started.state}: ${started.done} done, ${started.pending} of ${ids.length} pending`,
    )
  }
  const report = await tenants.migrations.run({ concurrency: MIGRATED_AT_ONCE })
  if (report.runId !== started.runId) throw new Error('the interrupted run was not continued')
  console.log(`migrated ${started.done}, and ${report.done - started.done} more after an interruption`)
  const isComplete = report.state === 'completed' && report.done === ids.length
  if (!isComplete || report.items.some(({ migrations }) => migrations.join() !== TAGS.name)) {
    throw new Error(`the run is ${report.state}: ${report.done} of ${ids.length} done, ${report.failed} failed`)
  }
}

async function purge({ tenants, kernel }: Tenancy): Promise<void> {
  await forEachConcurrent(ids, CREATED_AT_ONCE, async ({ id }) => void (await tenants.delete(id)))
  await tenants.installation.purgeExpired()
  await eventually(async () => {
    const { rows } = await kernel.database.sql(
      'select count(*) as count from multitenancy.tenants where purged_at is null',
    )
    if (rows[0].count > 0) throw new Error(`${rows[0].count} tenants are not purged`)
  }, LONGEST_STEP_MS)
}
