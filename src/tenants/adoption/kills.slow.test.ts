/**
 * Adoptions and releases in processes that are killed with SIGKILL, before and after the commit of the server.
 *
 * A lock of the test stops the process: a lock of a table before the commit, a lock of the backoffice's table after it.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { rightsOf } from '../../drivers/isolation/adoption/legacy-schemas.fixture.ts'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { withDatabase } from '../../drivers/isolation/roles/login-clients.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { raw } from '../../testing/leak/operations.ts'
import { formerRole, NOTES, TAGS } from './adoptions.fixture.ts'

let opened: TestTenancy<[]>
let former: Awaited<ReturnType<typeof formerRole>>
let role: string
const tenants = () => opened.tenancy.tenants
const sql = async (text: string, values: unknown[] = []) =>
  (await opened.tenancy.kernel.database.sql(text, values)).rows
const expire = () =>
  sql(`update multitenancy.adoptions set lease_until = now() - interval '1 second' where state = 'adopting'`)

beforeAll(async () => {
  former = await formerRole(inject('postgresUrl'))
  role = former.role
  opened = await testTenancy(inject('postgresUrl'), {
    role: 'api',
    migrations: [NOTES, TAGS],
    isolation: [schemaPg(), databasePg()],
  })
  // Prepares the server: the defaults of the tables call a function of Tenantry.
  await tenants().adoptions.plan({ id: 'none', isolation: 'schema-pg', schema: 'public', baseline: NOTES.name })
})
afterAll(async () => {
  await opened.end()
  await former.drop()
})

interface Legacy {
  /** URL of the database with the table. */
  readonly url: string
  readonly schema: string
  readonly request: { readonly id: string; readonly isolation: string; readonly baseline: string } & Record<
    string,
    string
  >
  /** Removes what the test has created on the server. */
  end(): Promise<void>
}

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  return work(client).finally(() => client.end())
}

const LEGACY: Readonly<Record<string, (id: string) => Promise<Legacy>>> = {
  async 'schema-pg'(id) {
    const schema = `legacy_${id}`
    await connected(opened.url, (client) =>
      client.query(`create schema ${schema}; alter schema ${schema} owner to ${role}; set search_path = ${schema};
        ${NOTES.up}; alter table notes owner to ${role}; insert into notes values ('${id}', 1, 'kept')`),
    )
    return {
      url: opened.url,
      schema,
      request: { id, isolation: 'schema-pg', schema, baseline: NOTES.name },
      end: async () => undefined,
    }
  },
  async 'database-pg'(id) {
    const database = `legacy_${id}_${randomBytes(4).toString('hex')}`
    await sql(`create database ${database} template template0`)
    await sql(`alter database ${database} owner to ${role}`)
    const url = withDatabase(opened.url, database)
    // The default of the tenant's id is one of the accepted differences: the database has no schema tenantry.
    await connected(url, (client) =>
      client.query(`create table notes (tenant_id text not null, id int not null, body text, primary key (tenant_id, id));
        alter table notes owner to ${role}; insert into notes values ('${id}', 1, 'kept')`),
    )
    return {
      url,
      schema: 'public',
      request: { id, isolation: 'database-pg', database, baseline: NOTES.name },
      end: async () => void (await sql(`drop database if exists ${database} with (force)`)),
    }
  },
}

const optionsOf = ({ request }: Legacy) => ({ ...request, acceptDifferences: ['column notes.tenant_id'] })

async function waiting(url: string, application: string): Promise<void> {
  await eventually(async () => {
    const { rows } = await connected(url, (client) =>
      client.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and application_name = $1`,
        [application],
      ),
    )
    expect(rows).toHaveLength(1)
  })
}

/** Runs `work` in a process while locks stop it, and kills the process. */
async function killed(legacy: Legacy, moment: 'before' | 'after', work: (child: Child) => Promise<unknown>) {
  const child = await startChild(new URL('./adoption-process.fixture.ts', import.meta.url), { url: opened.url })
  const table = `${legacy.schema}.notes`
  await connected(legacy.url, (one) =>
    connected(opened.url, async (other) => {
      await one.query(`begin; lock table ${table} in access share mode`)
      const working = work(child)
      working.catch(() => undefined)
      await waiting(legacy.url, 'tenantry ddl')
      if (moment === 'after') {
        await other.query('begin; lock table multitenancy.adoptions in share mode')
        await one.query('rollback')
        await waiting(opened.url, 'tenantry')
      }
      await child.kill('SIGKILL')
      await expect(working).rejects.toThrow()
    }),
  )
}

const rights = (legacy: Legacy) =>
  connected(legacy.url, (client) =>
    rightsOf({ sql: async (text, values) => client.query(text as string, [...(values ?? [])]) }, legacy.schema),
  )

let ids = 0
describe.each(Object.keys(LEGACY))('%s, a killed process', (isolation) => {
  const made = async () => (await LEGACY[isolation]?.(`t${++ids}`)) ?? expect.fail(isolation)

  test('before the commit of the server has adopted nothing', async () => {
    const legacy = await made()
    const { id } = legacy.request
    const [before, { digest }] = [await rights(legacy), await tenants().adoptions.plan(optionsOf(legacy))]
    await killed(legacy, 'before', (child) => child.request({ adopt: { ...optionsOf(legacy), digest } }))
    await expire()
    await eventually(async () => {
      await tenants().adoptions.recover()
      expect(await sql('select from multitenancy.tenants where id = $1', [id])).toEqual([])
    })
    expect(await rights(legacy)).toEqual(before)
    expect(await tenants().adoptions.adopt({ ...optionsOf(legacy), digest })).toMatchObject({ status: 'active' })
    await tenants().release(id)
    await legacy.end()
  })

  test('after the commit of the server has adopted the tenant', async () => {
    const legacy = await made()
    const { id } = legacy.request
    const { digest } = await tenants().adoptions.plan(optionsOf(legacy))
    await killed(legacy, 'after', (child) => child.request({ adopt: { ...optionsOf(legacy), digest } }))
    await expire()
    await tenants().adoptions.recover()
    expect(await tenants().get(id)).toMatchObject({ status: 'active' })
    expect(await raw((await tenants().handle(id)).db, 'select body from notes')).toEqual([{ body: 'kept' }])
    await tenants().release(id)
    await legacy.end()
  })

  test('in a release leaves it to the job UninstallTenant, which drops nothing', async () => {
    const legacy = await made()
    const { id } = legacy.request
    const [before, { digest }] = [await rights(legacy), await tenants().adoptions.plan(optionsOf(legacy))]
    await tenants().adoptions.adopt({ ...optionsOf(legacy), digest })
    const adopted = { ...legacy, schema: isolation === 'database-pg' ? 'tenant' : legacy.schema }
    await killed(adopted, 'before', (child) => child.request({ release: id }))
    await eventually(async () => expect(await tenants().installation.purge(id)).toBe(true))
    expect(await rights(legacy)).toEqual(before)
    expect(
      (await connected(legacy.url, (client) => client.query(`select body from ${legacy.schema}.notes`))).rows,
    ).toEqual([{ body: 'kept' }])
    await legacy.end()
  })
})
