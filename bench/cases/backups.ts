/**
 * Benchmark of backup, restore and clone of a million rows against COPY, from the row in the registry to the verified
 * archive or the cutover; of a small tenant among thousands; and of the memory for a large tenant.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { directory, rowscopePg, schemaPg, type Tenancy, type TenantMigration } from '../../src/index.ts'
import { type Bench, compare, type Result, RUNS, timed } from '../measure.ts'
import { FIVE_TABLES, withTenancy } from '../tenancy.ts'

const COLUMNS = 'id, title, body, is_done, at, amount'
const TYPES = `id bigint not null, title text not null, body text not null, is_done boolean not null, at timestamptz not null,
  amount numeric(12, 2) not null`
const rowsFrom = (count: number) => `select i, 'Title ' || i, md5(i::text) || ' lorem ipsum ' || i, i % 3 = 0,
  timestamptz '2026-01-01 00:00Z' - i * interval '1 second', i / 7.0 from generate_series(1, ${count}) i`

/** The same table for the tenants of both drivers. */
const migrations: readonly TenantMigration[] = [
  {
    name: '0001_entries',
    checksum: 'bench',
    up: `create table entries (tenant_id text not null default tenantry.current_tenant(), ${TYPES},
        primary key (tenant_id, id));
      create index on entries (tenant_id, at);
      create index on entries (tenant_id, title)`,
  },
]
const BARE_INDEXES = (table: string) =>
  `alter table ${table} add primary key (tenant_id, id); create index on ${table} (tenant_id, at); create index on ${table} (tenant_id, title)`

const MIB = 1024 * 1024
/** Size of one of the rows above as CSV. */
const BYTES_PER_ROW = 118

export const backups = {
  name: 'backups',
  async run({ postgresUrl, quick, say }: Bench): Promise<Result[]> {
    const path = await mkdtemp(join(tmpdir(), 'tenantry-bench-archives-'))
    const options = { ...HERE, migrations, backups: { archives: directory({ path }) } }
    const rows = quick ? 20_000 : 1_000_000
    try {
      const results: Result[] = []
      for (const isolation of [schemaPg(), rowscopePg()]) {
        const copying = (tenancy: Tenancy, url: string) => copies(say, tenancy, url, rows, path)
        results.push(...(await withTenancy(postgresUrl, copying, { ...options, isolation: [isolation] })))
      }
      results.push(await besideOthers(postgresUrl, quick ? 100 : 5_000, path, say))
      const sizes = quick ? [1, 10] : [10, 1_000]
      const memory = (tenancy: Tenancy) => memoryOf(tenancy, sizes, say)
      results.push(...(await withTenancy(postgresUrl, memory, options)))
      return results
    } finally {
      await rm(path, { recursive: true, force: true })
    }
  },
}

/** Jobs run only in this process: the delay until a worker gets a job is not measured. */
const HERE = { role: 'api' } as const
const only = { isLast: true, signal: new AbortController().signal }

async function install({ tenants }: Tenancy, id: string): Promise<void> {
  await tenants.create({ id, name: id })
  await tenants.installation.install(id, only)
}

const work = async ({ tenants }: Tenancy, tenantId: string, id: string) => {
  await tenants.transfers.work(id, only)
  const { state, failure } = await tenants.transfers.get(tenantId, id)
  if (state !== 'completed') throw new Error(`The transfer ended as ${state}: ${failure?.message}`)
}

async function backUp(tenancy: Tenancy, tenantId: string): Promise<string> {
  const { id } = await tenancy.tenants.transfers.backups.create(tenantId)
  await work(tenancy, tenantId, id)
  return id
}

async function copies(say: Bench['say'], tenancy: Tenancy, url: string, rows: number, path: string): Promise<Result[]> {
  const [{ name: isolation } = { name: '' }] = tenancy.tenants.storage.drivers
  const { transfers } = tenancy.tenants
  await install(tenancy, 'acme')
  const { pool } = await tenancy.tenant('acme')
  await pool.query(`insert into entries (${COLUMNS}) ${rowsFrom(rows)}`)
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  await owner.query(`create schema bare; create table bare.entries (tenant_id text not null default 'bare', ${TYPES});
    insert into bare.entries (${COLUMNS}) ${rowsFrom(rows)}; ${BARE_INDEXES('bare.entries')}`)
  await owner.query('vacuum analyze')
  const file = join(path, 'bare.csv')
  const copyOut = () => owner.query(copyTo(`copy bare.entries (${COLUMNS}) to stdout (format csv, header)`))
  const copyIn = (table: string) => owner.query(copyFrom(`copy ${table} (${COLUMNS}) from stdin (format csv, header)`))
  const perSecond = (what: string, one: () => Promise<unknown>) => async () => {
    const rate = (rows / (await timed(one))) * 1_000
    say(`${isolation}, ${what}: ${Math.round(rate)} rows/s`)
    return rate
  }
  const baselineImport = async (fill: (into: ReturnType<typeof copyIn>) => Promise<unknown>) => {
    await owner.query(
      `drop table if exists bare.copied; create table bare.copied (like bare.entries including defaults)`,
    )
    await fill(copyIn('bare.copied'))
    await owner.query(BARE_INDEXES('bare.copied'))
  }
  /** Imports into a shared table, which has indexes and rows of other tenants. */
  const sharedImport = async (fill: (into: ReturnType<typeof copyIn>) => Promise<unknown>) => {
    await owner.query(`drop table if exists bare.copied; create table bare.copied (like bare.entries including defaults);
      insert into bare.copied select * from bare.entries; ${BARE_INDEXES('bare.copied')};
      alter table bare.copied alter tenant_id set default 'copied'`)
    return timed(() => fill(copyIn('bare.copied')))
  }
  let latest = ''
  let number = 0
  const result = (name: string, against: string, both: { ours: number; reference: number }, goal = 0.7): Result => ({
    name: `${name}, ${isolation}, ${rows.toLocaleString('en-US')} rows`,
    against,
    unit: 'rows/s',
    ...both,
    ratio: both.ours / both.reference,
    goal,
  })
  const isShared = isolation === 'rowscope-pg'
  /**
   * In shared tables, a restore in place writes each row, then updates the `tenant_id` of that row and of the replaced
   * one.
   */
  const restoreGoal = isShared ? 0.3 : 0.7
  const intoTables = (fill: (into: ReturnType<typeof copyIn>) => Promise<unknown>, what: string) =>
    isShared
      ? async () => {
          const rate = (rows / (await sharedImport(fill))) * 1_000
          say(`${isolation}, ${what}: ${Math.round(rate)} rows/s`)
          return rate
        }
      : perSecond(what, () => baselineImport(fill))
  const suffix = isShared ? 'into a table with its indexes and as many rows' : 'and the index builds'
  try {
    const results = [
      result(
        'backup',
        'COPY to a file',
        await compare(
          RUNS,
          perSecond('backup', async () => {
            latest = await backUp(tenancy, 'acme')
          }),
          perSecond('bare COPY', () => pipeline(copyOut(), createWriteStream(file))),
        ),
      ),
      result(
        'restore',
        `COPY from a file ${suffix}`,
        await compare(
          RUNS,
          perSecond('restore', async () => {
            const { transfer } = await transfers.backups.restore('acme', { backupId: latest })
            await work(tenancy, 'acme', transfer.id)
          }),
          intoTables((into) => pipeline(createReadStream(file), into), 'bare COPY'),
        ),
        restoreGoal,
      ),
    ]
    const second = new pg.Client({ connectionString: url })
    await second.connect()
    try {
      const read = () => second.query(copyTo(`copy bare.entries (${COLUMNS}) to stdout (format csv, header)`))
      results.push(
        result(
          'clone',
          `COPY to COPY ${suffix}`,
          await compare(
            RUNS,
            perSecond('clone', async () => {
              const { tenant, transfer } = await transfers.clone('acme', { id: `copy-${number++}`, name: 'A copy' })
              await work(tenancy, tenant.id, transfer.id)
            }),
            intoTables((into) => pipeline(read(), into), 'bare COPY to COPY'),
          ),
        ),
      )
    } finally {
      await second.end()
    }
    return results
  } finally {
    await owner.end()
  }
}

/** Measures a tenant with five tables and a few rows, in a database without and with many other tenants. */
async function besideOthers(postgresUrl: string, others: number, path: string, say: Bench['say']): Promise<Result> {
  const small = [{ name: '0001_five_tables', checksum: 'bench', up: FIVE_TABLES }]
  const options = { ...HERE, migrations: small, backups: { archives: directory({ path }) } }
  const prepared = async (tenancy: Tenancy) => {
    await install(tenancy, 'small')
    const { pool } = await tenancy.tenant('small')
    await pool.query(`insert into accounts (name) select 'Account ' || n from generate_series(1, 100) n`)
  }
  return withTenancy(
    postgresUrl,
    (alone) =>
      withTenancy(
        postgresUrl,
        async (crowded, url) => {
          await prepared(alone)
          await prepared(crowded)
          const owner = new pg.Client({ connectionString: url })
          await owner.connect()
          say(`making ${others} other schemas`)
          for (let n = 0; n < others; n++) {
            await owner.query(
              `begin; create schema other_${n}; set local search_path = other_${n}; ${FIVE_TABLES}; commit`,
            )
          }
          await owner.query('vacuum analyze')
          await owner.end()
          const perSecond = (tenancy: Tenancy) => async () => {
            const count = 10
            const ms = await timed(async () => {
              for (let n = 0; n < count; n++) await backUp(tenancy, 'small')
            })
            return (count / ms) * 1_000
          }
          const both = await compare(RUNS, perSecond(crowded), perSecond(alone))
          return {
            name: `backup of a small tenant, ${others} other schemas of 5 tables`,
            against: 'the same without other schemas',
            unit: 'backups/s',
            ...both,
            ratio: both.ours / both.reference,
            goal: 1 / 3,
          }
        },
        options,
      ),
    options,
  )
}

/** Peak memory of the process during backup and restore of tenants of two sizes. */
async function memoryOf(tenancy: Tenancy, megabytes: readonly number[], say: Bench['say']): Promise<Result[]> {
  const { transfers } = tenancy.tenants
  const peaks: number[] = []
  for (const size of megabytes) {
    const id = `mb-${size}`
    await install(tenancy, id)
    const { pool } = await tenancy.tenant(id)
    await pool.query(`insert into entries (${COLUMNS}) ${rowsFrom(Math.round((size * 1_000_000) / BYTES_PER_ROW))}`)
    const peak = await peakOf(async () => {
      const backupId = await backUp(tenancy, id)
      const { transfer } = await transfers.backups.restore(id, { backupId })
      await work(tenancy, id, transfer.id)
    })
    say(`${size} MB of data: ${Math.round(peak / MIB)} MiB at most`)
    peaks.push(peak)
  }
  const [least = 0, most = 0] = peaks
  const growth = Math.round((most - least) / MIB)
  return [
    {
      name: `memory of the process, backup and restore of ${megabytes[0]} MB and of ${megabytes[1]} MB`,
      value: `${Math.round(least / MIB)} MiB and ${Math.round(most / MIB)} MiB`,
      goal: `${growth <= 32 ? 'flat' : `grows by ${growth} MiB`}`,
    },
  ]
}

async function peakOf(during: () => Promise<unknown>): Promise<number> {
  let peak = 0
  const look = () => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }
  const timer = setInterval(look, 20)
  try {
    await during()
    look()
    return peak
  } finally {
    clearInterval(timer)
  }
}
