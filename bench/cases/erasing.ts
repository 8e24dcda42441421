/**
 * Benchmark of the erasure of a tenant with a million rows and 50 archives, from the request to the signed report, against the bare
 * removal: DROP SCHEMA or DELETE, and the removal of 50 files.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { directory, rowscopePg, schemaPg, type Tenancy, type TenantMigration } from '../../src/index.ts'
import { type Bench, compare, type Result, timed } from '../measure.ts'
import { withTenancy } from '../tenancy.ts'

const ARCHIVES = 50
const ARCHIVE_BYTES = 1024 * 1024
/** Each run needs its own rows. */
const RUNS = 3
const COLUMNS = 'id bigint not null, title text not null, body text not null'
const rowsFrom = (count: number) =>
  `select i, 'Title ' || i, md5(i::text) || ' lorem ipsum ' || i from generate_series(1, ${count}) i`

const migrations: readonly TenantMigration[] = [
  {
    name: '0001_entries',
    checksum: 'bench',
    up: `create table entries (tenant_id text not null default tenantry.current_tenant(), ${COLUMNS}, primary key (tenant_id, id));
      create index on entries (tenant_id, title)`,
  },
]

export const erasing = {
  name: 'erasing',
  async run({ postgresUrl, quick, say }: Bench): Promise<Result[]> {
    const rows = quick ? 20_000 : 1_000_000
    const results: Result[] = []
    for (const isolation of [schemaPg(), rowscopePg()]) {
      const path = await mkdtemp(join(tmpdir(), 'tenantry-bench-erasing-'))
      const options = {
        role: 'api',
        migrations,
        backups: { archives: directory({ path }) },
        isolation: [isolation],
      } as const
      const one = (tenancy: Tenancy, url: string) => erasureOf(say, tenancy, { url, rows, path })
      results.push(
        await withTenancy(postgresUrl, one, options).finally(() => rm(path, { recursive: true, force: true })),
      )
    }
    return results
  },
}

interface Where {
  readonly url: string
  readonly rows: number
  readonly path: string
}

async function erasureOf(say: Bench['say'], tenancy: Tenancy, { url, rows, path }: Where): Promise<Result> {
  const { tenants } = tenancy
  const [{ name: isolation, capabilities } = { name: '', capabilities: undefined }] = tenants.storage.drivers
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  await owner.query(`create schema shared; create table shared.entries (tenant_id text not null, ${COLUMNS}, primary key (tenant_id, id));
    create index on shared.entries (tenant_id, title)`)
  let number = 0

  const ours = async () => {
    const id = `acme${number++}`
    await tenants.create({ id, name: id })
    await tenants.installation.install(id, { isLast: true })
    await (await tenancy.tenant(id)).pool.query(`insert into entries (id, title, body) ${rowsFrom(rows)}`)
    await archivesIn(join(path, id))
    await owner.query('checkpoint')
    const ms = await timed(async () => {
      await tenants.erasures.request(id, { confirm: id, reason: 'benchmark' })
      await tenants.erasures.work(id, { signal: new AbortController().signal })
    })
    const { state } = await tenants.erasures.get(id)
    if (state !== 'completed') throw new Error(`The erasure is ${state}`)
    say(`${isolation}, erasure: ${Math.round(ms)} ms`)
    return ms
  }
  const reference = async () => {
    const id = `bare${number++}`
    const table = capabilities?.separateStorage ? `${id}.entries` : 'shared.entries'
    if (capabilities?.separateStorage) {
      await owner.query(`create schema ${id}; create table ${table} (like shared.entries including all)`)
    }
    await owner.query(
      `insert into ${table} (tenant_id, id, title, body) select '${id}', entry.* from (${rowsFrom(rows)}) entry`,
    )
    const files = await archivesIn(join(path, id))
    await owner.query('checkpoint')
    const ms = await timed(async () => {
      if (capabilities?.separateStorage) await owner.query(`drop schema ${id} cascade`)
      else await owner.query('delete from shared.entries where tenant_id = $1', [id])
      for (const file of files) await rm(file)
    })
    say(`${isolation}, bare removal: ${Math.round(ms)} ms`)
    return ms
  }

  try {
    const both = await compare(RUNS, ours, reference)
    return {
      name: `erasure, ${isolation}, ${rows.toLocaleString('en-US')} rows, ${ARCHIVES} archives`,
      against: capabilities?.separateStorage ? 'DROP SCHEMA and rm' : 'DELETE and rm',
      unit: 'ms',
      ...both,
      ratio: both.reference / both.ours,
      goal: 1 / 1.3,
    }
  } finally {
    await owner.end()
  }
}

/** Files with the names of archives. */
async function archivesIn(folder: string): Promise<string[]> {
  await mkdir(folder, { recursive: true })
  const files = Array.from({ length: ARCHIVES }, (_, index) => join(folder, `archive-${index}.tar.gz`))
  for (const file of files) await writeFile(file, Buffer.alloc(ARCHIVE_BYTES, 1))
  return files
}
