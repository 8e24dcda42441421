/**
 * Benchmark of the erasure of a tenant with a million rows and 50 archives, from the request to the signed report, against the bare
 * removal of an equal tenant: DROP SCHEMA or DELETE, the removal of 50 files, and one DELETE for each table of the parts, in one
 * transaction. The bare removal searches nothing, records nothing and is not repeated after a crash. Both are durable, and have open
 * connections.
 */
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
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
  const isSeparate = capabilities?.separateStorage === true
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  let number = 0

  const installed = async (count: number) => {
    const id = `acme${number++}`
    await tenants.create({ id, name: id })
    await tenants.installation.install(id, { isLast: true })
    await (await tenancy.tenant(id)).pool.query(`insert into entries (id, title, body) ${rowsFrom(count)}`)
    return { id, files: await archivesIn(join(path, id)) }
  }
  const erase = async ({ id }: Installed) => {
    await tenants.erasures.request(id, { confirm: id, reason: 'benchmark' })
    await tenants.erasures.work(id, { signal: new AbortController().signal })
  }
  const remove = async ({ id, files }: Installed) => {
    if (isSeparate) await owner.query(`drop schema "t1_${id}" cascade`)
    else await owner.query('delete from tenantry_rows.entries where tenant_id = $1', [id])
    for (const file of files) await rm(file)
    await synced(join(path, id))
    await owner.query('begin')
    for (const table of await tablesOfParts(owner)) await owner.query(`delete from ${table} where tenant_id = $1`, [id])
    await owner.query('delete from multitenancy.tenants where id = $1', [id])
    await owner.query('commit')
  }
  /** The removal of a small tenant opens the connections, and fills their caches. */
  const measured = async (side: string, removal: (tenant: Installed) => Promise<void>) => {
    const [large, small] = [await installed(rows), await installed(1)]
    await owner.query('checkpoint')
    await removal(small)
    const ms = await timed(() => removal(large))
    say(`${isolation}, ${side}: ${Math.round(ms)} ms`)
    return { ...large, ms }
  }
  const ours = async () => {
    const { id, ms } = await measured('erasure', erase)
    const { state, report } = await tenants.erasures.get(id)
    const counts = report?.systems.map(({ found, removed }) => [found, removed].join())
    const wanted = isSeparate ? [1, ARCHIVES] : [rows, ARCHIVES]
    if (state !== 'completed' || wanted.some((count) => !counts?.includes(`${count},${count}`)))
      throw new Error(`The erasure is ${state}: ${JSON.stringify(report)}`)
    return ms
  }
  const reference = async () => (await measured('bare removal', remove)).ms

  try {
    const both = await compare(RUNS, ours, reference)
    return {
      name: `erasure, ${isolation}, ${rows.toLocaleString('en-US')} rows, ${ARCHIVES} archives`,
      against: isSeparate ? 'DROP SCHEMA, rm, DELETEs' : 'DELETEs and rm',
      unit: 'ms',
      ...both,
      ratio: both.reference / both.ours,
      goal: 1 / 1.3,
    }
  } finally {
    await owner.end()
  }
}

interface Installed {
  readonly id: string
  readonly files: readonly string[]
}

async function tablesOfParts(owner: pg.Client): Promise<string[]> {
  const { rows } = await owner.query(
    `select attrelid::regclass::text as table from pg_attribute join pg_class t on t.oid = attrelid
     where relnamespace = 'multitenancy'::regnamespace and relkind in ('r', 'p') and not relispartition and attname = 'tenant_id'`,
  )
  return rows.map(({ table }) => table)
}

/** The removal of the files is durable, as in an erasure. */
async function synced(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync()
  await handle.close()
}

/** Files with the names of archives. */
async function archivesIn(folder: string): Promise<string[]> {
  await mkdir(folder, { recursive: true })
  const files = Array.from({ length: ARCHIVES }, (_, index) => join(folder, `archive-${index}.tar.gz`))
  for (const file of files) await writeFile(file, Buffer.alloc(ARCHIVE_BYTES, 1))
  return files
}
