import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../testing/base/database.ts'
import { baseObjects } from '../migrations/postgres-migrator.ts'
import { auditRows, fence, protectRows, rowObjects, unfence, withoutForce } from './apply.ts'

const ROWS = 'tenantry_rows'
const TENANT_ID = 'tenant_id text not null default tenantry.current_tenant()'
const NOTES = `create table notes (${TENANT_ID}, id int generated always as identity, title text, serial serial,
  primary key (tenant_id, id), unique (tenant_id, title))`
const RAISES = {
  unscoped: { code: '42501', message: expect.stringContaining('no tenant is set') },
  denied: { code: '42501' },
}
const FENCED = { code: 'TN001' }

const suffix = randomBytes(4).toString('hex')
const [scope, login, owner] = [`rows_${suffix}_scope`, `rows_${suffix}_login`, `rows_${suffix}_owner`]
let database: TestDatabase
/** A superuser, the owner of the tables, and the login of tenants' queries. */
let admin: pg.Client
let host: pg.Client
let tenants: pg.Client

beforeAll(async () => {
  database = await createTestDatabase(inject('postgresUrl'))
  const name = new URL(database.url).pathname.slice(1)
  await onServer(`create role ${scope} nologin noinherit; create role ${login} login noinherit password 'p';
    create role ${owner} login password 'p'; grant ${scope} to ${login};
    grant create on database ${name} to ${owner}; alter database ${name} set track_functions = 'pl'`)
  admin = await connect(database.url)
  host = await connect(as(owner))
  tenants = await connect(as(login))
  await host.query(`begin; ${baseObjects(scope)}; commit`)
  await host.query(rowObjects(scope))
  for (const client of [admin, host]) await client.query(`set search_path = ${ROWS}`)
})
afterAll(async () => {
  for (const client of [admin, host, tenants]) await client.end()
  await database.drop()
  await onServer(`drop role ${login}, ${scope}, ${owner}`)
})
beforeEach(async () => {
  await admin.query(`drop schema if exists ${ROWS} cascade;
    drop extension if exists postgres_fdw, btree_gist cascade; delete from tenantry.fenced`)
  await host.query(`create schema ${ROWS}`)
})

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return client
}
async function onServer(statements: string): Promise<void> {
  const server = await connect(inject('postgresUrl'))
  await server.query(statements).finally(() => server.end())
}
function as(role: string): string {
  const url = new URL(database.url)
  url.username = role
  url.password = 'p'
  return url.href
}
async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}
/** Runs one statement in the scope of a tenant, or without a tenant if the id is undefined. */
const scoped = (tenantId: string | undefined, sql: string, values: unknown[] = []): Promise<any[]> =>
  inTransaction(tenants, async () => {
    if (tenantId !== undefined) await tenants.query(`select set_config('app.tenant_id', $1, true)`, [tenantId])
    await tenants.query(`select set_config('search_path', $1, true), set_config('role', $2, true)`, [ROWS, scope])
    return (await tenants.query(sql, values)).rows
  })
const titles = async (tenantId: string) =>
  (await scoped(tenantId, 'select title from notes order by title')).map(({ title }) => title)
const migrate = (...statements: string[]) =>
  inTransaction(host, async () => {
    for (const statement of statements) await host.query(statement)
    await protectRows(host, ROWS, scope)
  })
const audit = () => auditRows(host, ROWS, scope)
const withNotes = async () => {
  await migrate(NOTES)
  for (const tenant of ['a', 'b']) await scoped(tenant, 'insert into notes (title) values ($1)', [`of ${tenant}`])
}

describe('protected table', () => {
  test('a tenant reads, changes and deletes only its own rows of a protected table', async () => {
    await withNotes()
    expect(await titles('a')).toEqual(['of a'])
    expect(await scoped('a', `update notes set title = 'changed' returning tenant_id`)).toEqual([{ tenant_id: 'a' }])
    expect(await titles('b')).toEqual(['of b'])
    await scoped('a', 'delete from notes')
    expect(await titles('b')).toEqual(['of b'])
    expect(await titles('a')).toEqual([])
  })

  test('a protected table rejects a row for another tenant by insert, update or merge', async () => {
    await withNotes()
    for (const statement of [
      `insert into notes (tenant_id, title) values ('b', 'planted')`,
      `update notes set tenant_id = 'b'`,
      `merge into notes using (values (1)) on true when matched then update set tenant_id = 'b'`,
    ]) {
      await expect(scoped('a', statement)).rejects.toMatchObject({ ...RAISES.denied, message: /row-level security/ })
    }
    expect(await titles('b')).toEqual(['of b'])
  })

  test('a table with its partitions gets policies, FORCE and four rights; a sequence gets only USAGE', async () => {
    await migrate(
      NOTES,
      `create table events (${TENANT_ID}, at date, primary key (tenant_id, at)) partition by range (at)`,
      `create table events_1 partition of events for values from (minvalue) to (maxvalue)`,
    )
    const { rows } = await admin.query(
      `select relname, relrowsecurity and relforcerowsecurity as forced,
         array(select privilege_type || is_grantable from aclexplode(relacl) where grantee <> relowner order by 1) as rights,
         (select count(*)::int from pg_policy where polrelid = pg_class.oid) as policies
       from pg_class where relnamespace = $1::regnamespace and relkind in ('r', 'p', 'S') order by relname`,
      [ROWS],
    )
    const secured = { forced: true, rights: ['DELETEfalse', 'INSERTfalse', 'SELECTfalse', 'UPDATEfalse'], policies: 2 }
    const sequence = { forced: false, rights: ['USAGEfalse'], policies: 0 }
    expect(rows).toEqual([
      { relname: 'events', ...secured },
      { relname: 'events_1', ...secured },
      { relname: 'notes', ...secured },
      { relname: 'notes_id_seq', ...sequence },
      { relname: 'notes_serial_seq', ...sequence },
    ])
    await scoped('a', `insert into events (at) values ('2026-01-01')`)
    expect(await scoped('b', 'select * from events_1')).toEqual([])
    await expect(scoped('b', 'select last_value from notes_serial_seq')).rejects.toMatchObject(RAISES.denied)
  })

  test('a query uses the key of the index, and the tenant is determined once for each statement', async () => {
    await migrate(NOTES)
    await admin.query(`insert into notes (tenant_id, title)
      select 't' || t, 'n' || n from generate_series(1, 50) t, generate_series(1, 200) n; analyze notes`)
    const plan = async (where: string) =>
      (await scoped('t7', `explain (costs off) select * from notes ${where}`))
        .map((row) => row['QUERY PLAN'])
        .join('\n')
    expect(await plan('where id = 7')).toMatch(/Index Cond: \(\(tenant_id = \(InitPlan \d\)\.col1\) AND \(id = 7\)\)/)
    expect(await plan(`where tenant_id = 't7' and id = 7`)).toMatch(
      /Index Cond: \(\(tenant_id = 't7'::text\) AND \(id = 7\)\)/,
    )
    expect(await plan('')).toContain(
      `One-Time Filter: (current_setting('app.tenant_id'::text, true) = (InitPlan 1).col1)`,
    )
    await tenants.query('select pg_stat_force_next_flush()') // Resets the count of earlier transactions.
    await inTransaction(tenants, async () => {
      await tenants.query(`select set_config('app.tenant_id', 't7', true), set_config('role', $1, true)`, [scope])
      expect((await tenants.query(`select count(*)::int as n from ${ROWS}.notes`)).rows).toEqual([{ n: 200 }])
      const { rows } = await tenants.query(
        `select calls::int from pg_stat_xact_user_functions where funcname in ('admitted_tenant', 'current_tenant')`,
      )
      expect(rows).toEqual([{ calls: 1 }, { calls: 1 }])
    })
  })

  test('LIKE filters the tenant’s own rows and is never an index condition', async () => {
    await withNotes()
    await host.query('create index on notes (tenant_id, title text_pattern_ops)')
    const plan = await inTransaction(tenants, async () => {
      await tenants.query(`select set_config('app.tenant_id', 'a', true), set_config('role', $1, true)`, [scope])
      await tenants.query('set local enable_seqscan = off')
      return (await tenants.query(`explain (costs off) select from ${ROWS}.notes where title like 'of%'`)).rows
    })
    const text = plan.map((row: any) => row['QUERY PLAN']).join('\n')
    expect(text).toMatch(/Filter: .*~~ 'of%'/)
    expect(text).not.toContain('~>=~')
  })
})

describe('statements without a tenant', () => {
  // On a connection that has had a tenant, the setting stays empty and is never missing again.
  beforeEach(async () => {
    await tenants.end()
    tenants = await connect(as(login))
  })
  const statements = [
    'select * from notes',
    `select * from notes where title = 'none' and id = -1`,
    `insert into notes (title) values ('x')`,
    `insert into notes (tenant_id, title) values ('', 'x')`,
    `update notes set title = 'x'`,
    'delete from notes',
    'select count(*) from notes join notes as others using (id)',
  ]

  test.each(statements)(
    '%s without a tenant raises, also on an empty table and on a connection whose setting was left empty',
    async (sql) => {
      await migrate(NOTES)
      const setting = `select current_setting('app.tenant_id', true) as tenant`
      expect((await tenants.query(setting)).rows).toEqual([{ tenant: null }])
      await expect(scoped(undefined, sql)).rejects.toMatchObject(RAISES.unscoped)
      await scoped('a', `insert into notes (title) values ('of a')`)
      expect((await tenants.query(setting)).rows).toEqual([{ tenant: '' }])
      await expect(scoped(undefined, sql)).rejects.toMatchObject(RAISES.unscoped)
      expect(await titles('a')).toEqual(['of a'])
    },
  )

  test('the login itself has no right to query a table, also if PUBLIC had it before', async () => {
    await migrate(NOTES, 'grant all on notes to public')
    await expect(tenants.query(`select * from ${ROWS}.notes`)).rejects.toMatchObject(RAISES.denied)
  })
})

describe('access past the policies', () => {
  beforeEach(withNotes)

  test('an owner reads and writes no rows with FORCE, and all rows without it', async () => {
    const seen = async () => (await host.query('select * from notes')).rowCount
    expect(await seen()).toBe(0)
    expect((await host.query(`update notes set title = 'x'`)).rowCount).toBe(0)
    await expect(host.query(`insert into notes (tenant_id) values ('a')`)).rejects.toMatchObject(RAISES.denied)
    await host.query('alter table notes no force row level security')
    expect(await seen()).toBe(2)
    expect(await audit()).toMatchObject([{ object: `table "${ROWS}"."notes"`, fault: 'FORCE is missing' }])
    await migrate()
    expect(await seen()).toBe(0)
  })

  test('a superuser bypasses FORCE, so tenants’ queries never run as a superuser', async () => {
    expect((await admin.query('select * from notes')).rowCount).toBe(2)
  })

  test('rejects a plain view; a view with security_invoker returns only the tenant’s rows', async () => {
    await admin.query(`create view mine as select * from notes; alter view mine owner to ${owner}`)
    await expect(migrate()).rejects.toThrow(/view "tenantry_rows"\."mine": reads with the rights of its owner/)
    await host.query('alter view mine set (security_invoker = on)')
    await migrate()
    expect(await scoped('a', 'select title from mine')).toEqual([{ title: 'of a' }])
    await expect(scoped(undefined, 'select title from mine')).rejects.toMatchObject(RAISES.unscoped)
  })

  test('rejects a materialised view', async () => {
    const making = inTransaction(host, async () => {
      await withoutForce(host, ROWS, () => host.query('create materialized view copied as select * from notes'))
      await protectRows(host, ROWS, scope)
    })
    await expect(making).rejects.toThrow(/materialized view "tenantry_rows"\."copied"/)
  })

  test('the scope role has no TRUNCATE and no other right beyond the four', async () => {
    for (const right of ['truncate', 'references', 'trigger', 'select (title)', 'update']) {
      await host.query(`grant ${right} on notes to ${scope} ${right === 'update' ? 'with grant option' : ''}`)
      expect(await audit()).toMatchObject([{ fault: 'the role of tenants’ queries has other rights' }])
      await migrate()
      expect(await audit()).toEqual([])
    }
    await expect(scoped('a', 'truncate notes')).rejects.toMatchObject(RAISES.denied)
    expect(await titles('b')).toEqual(['of b'])
  })

  test('rejects a SECURITY DEFINER function of a superuser; one of the owner returns no rows of other tenants', async () => {
    await host.query(`create function all_notes() returns bigint security definer language sql
      return (select count(*) from ${ROWS}.notes)`)
    await migrate()
    const asked = `select set_config('tenantry.all_tenants', 'on', true), all_notes() as n`
    expect(await scoped('a', asked)).toMatchObject([{ n: '0' }])
    await admin.query('alter function all_notes() owner to current_user')
    await expect(migrate()).rejects.toThrow(/function tenantry_rows\.all_notes\(\): is SECURITY DEFINER/)
    await admin.query('revoke execute on function all_notes() from public')
    await migrate()
  })
})

describe('rejects objects that cannot be protected, with name and remedy', () => {
  const t = `create table t (${TENANT_ID}, id int, primary key (tenant_id, id)`
  const rejected: readonly [string, string, RegExp][] = [
    ['no tenant_id', 'create table t (id int)', /table "tenantry_rows"\."t": has no column tenant_id \(create it with/],
    [
      'another type',
      'create table t (tenant_id varchar(9) not null default tenantry.current_tenant())',
      /tenant_id is character varying/,
    ],
    ['nullable', 'create table t (tenant_id text default tenantry.current_tenant())', /tenant_id may be null/],
    [
      'no default',
      'create table t (tenant_id text not null)',
      /tenant_id does not default to tenantry\.current_tenant\(\)/,
    ],
    [
      'a default that does not raise',
      `create table t (tenant_id text not null default current_setting('app.tenant_id', true))`,
      /tenant_id does not default/,
    ],
    [
      'a function with the name of the default',
      `create function current_tenant() returns text language sql return 'a'; create table t (tenant_id text not null default current_tenant())`,
      /tenant_id does not default/,
    ],
    [
      'a collation in which different ids are equal',
      `create collation loose (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
       create table t (tenant_id text collate loose not null default tenantry.current_tenant())`,
      /tenant_id has a collation/,
    ],
    ['a primary key', `create table t (${TENANT_ID}, id int primary key)`, /the key "t_pkey" reveals/],
    ['a unique constraint', `${t}, email text unique)`, /the key "t_email_key" reveals/],
    [
      'a key in which tenant_id is second',
      `create table t (${TENANT_ID}, id int, unique (id, tenant_id))`,
      /the key "t_id_tenant_id_key"/,
    ],
    [
      'a key that only includes tenant_id',
      `create table t (${TENANT_ID}, id int, unique (id) include (tenant_id))`,
      /the key "t_id_tenant_id_key"/,
    ],
    ['a unique index', `${t}); create unique index odd on t (id) where id > 0`, /the key "odd" reveals/],
    [
      'a unique index over an expression',
      `${t}); create unique index odd on t (lower(tenant_id), id)`,
      /the key "odd" reveals/,
    ],
    [
      'an exclusion constraint',
      `${t}, span int4range, exclude using gist (span with &&))`,
      /the exclusion constraint "t_span_excl" reveals/,
    ],
    [
      'a foreign key without tenant_id',
      `${t}, other int references shared, note int);
       create table u (${TENANT_ID}, id int); create unique index one on u (id);
       alter table t add constraint odd foreign key (note) references u (id)`,
      /the foreign key "odd" reveals, past the policies, whether/,
    ],
    [
      'a foreign key with tenant_id swapped',
      `${t}); create table u (${TENANT_ID}, id text, owner text,
       foreign key (owner, id) references v (tenant_id, id))`,
      /the foreign key "u_owner_id_fkey" reveals/,
    ],
    [
      'a foreign key from tenant_id to another column',
      `${t}); create table u (${TENANT_ID}, owner text, constraint odd
       foreign key (tenant_id, owner) references v (id, tenant_id))`,
      /the foreign key "odd" reveals, past the policies, whether/,
    ],
    [
      'a unique index whose collation confuses ids',
      `create collation loose (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
       ${t}); create unique index odd on t (tenant_id collate loose, id)`,
      /the key "odd" reveals/,
    ],
    [
      'a foreign key to another schema',
      `create table public.secrets (id int primary key); ${t}, secret int references public.secrets)`,
      /"t_secret_fkey" reveals, past the policies, the content of public\.secrets/,
    ],
    [
      'a foreign key of a shared table',
      `${t}); create unique index one on t (id); alter table shared add foreign key (id) references t (id)`,
      /table "tenantry_rows"\."shared": the foreign key "shared_id_fkey" reveals/,
    ],
    ['a child outside', `${t}); create table public.child () inherits (t)`, /inherits from or to public\.child/],
    [
      'a parent outside',
      `create table public.parent (${TENANT_ID}); create table t () inherits (public.parent)`,
      /inherits from or to public\.parent/,
    ],
    [
      'a partition outside',
      `create table t (${TENANT_ID}) partition by list (tenant_id); create table public.part partition of t default`,
      /inherits from or to public\.part/,
    ],
    [
      'a tenant table that inherits from a shared table',
      `create table t (${TENANT_ID}) inherits (shared)`,
      /only one of it and tenantry_rows\.shared is declared/,
    ],
    [
      'a shared table with tenant_id',
      `${t}); comment on table t is 'tenantry: shared'`,
      /is declared for all tenants and has a column tenant_id/,
    ],
    [
      'a permissive policy',
      `${t}); create policy wide on t using (true)`,
      /the policy "wide" extends the rows that a tenant may see/,
    ],
    ['a rule', `${t}); create rule odd as on delete to t do instead nothing`, /the rule "odd" rewrites/],
    ['a schema with CREATE for PUBLIC', `${t}); grant create on schema ${ROWS} to public`, /may create objects in it/],
  ]

  test.each(rejected)('%s', async (_, statements, message) => {
    await admin.query(`grant create on schema public to ${owner}`)
    const making = migrate(
      `create table shared (id int primary key); comment on table shared is 'tenantry: shared'`,
      `create table v (${TENANT_ID}, id text, primary key (tenant_id, id))`,
      statements,
    )
    await expect(making).rejects.toMatchObject({ code: 'E_MIGRATION_FAILED', message: expect.stringMatching(message) })
    expect((await host.query(`select from pg_class where relnamespace = '${ROWS}'::regnamespace`)).rowCount).toBe(0)
  })

  test('rejects a table of another owner and a foreign table', async () => {
    await admin.query(`create table foreigner (${TENANT_ID}); create extension postgres_fdw schema public;
      create server elsewhere foreign data wrapper postgres_fdw; create foreign table far (id int) server elsewhere`)
    const refusal = await migrate().catch((error: Error) => error.message)
    expect(refusal).toMatch(/table "tenantry_rows"\."foreigner": belongs to/)
    expect(refusal).toMatch(/foreign table "tenantry_rows"\."far": row level security does not apply/)
    expect((await audit()).map(({ object }) => object)).toContain(`foreign table "${ROWS}"."far"`)
  })

  test('accepts keys and foreign keys with tenant_id and restrictive policies', async () => {
    await migrate(
      NOTES,
      `create table tags (${TENANT_ID}, note int, tag text, primary key (tenant_id, note, tag),
         foreign key (tenant_id, note) references notes (tenant_id, id) on delete cascade)`,
      `create policy narrow on notes as restrictive using (title <> 'hidden')`,
    )
    await admin.query('create extension btree_gist schema public')
    await migrate(`create table stays (${TENANT_ID}, room int, span int4range,
      exclude using gist (room with =, tenant_id with =, span with &&))`)
    expect(await audit()).toEqual([])
    const [{ id }] = await scoped('a', `insert into notes (title) values ('n') returning id`)
    await scoped('a', `insert into tags (note, tag) values ($1, 't')`, [id])
    await expect(scoped('b', `insert into tags (note, tag) values ($1, 't')`, [id])).rejects.toMatchObject({
      code: '23503',
    })
    await scoped('a', 'delete from notes')
    expect(await scoped('a', 'select * from tags')).toEqual([])
    expect(await scoped('b', `insert into notes (title) values ('n') returning tenant_id`)).toEqual([
      { tenant_id: 'b' },
    ])
  })
})

describe('drift', () => {
  beforeEach(withNotes)
  const policyOf = async (audience: string) =>
    (
      await host.query(`select polname from pg_policy where polrelid = 'notes'::regclass and polname like $1`, [
        `tenantry_${audience}_%`,
      ])
    ).rows[0].polname

  test.each([
    ['a policy altered under its name', 'alter policy $tenant on notes using (true)'],
    ['an altered check of a policy', 'alter policy $tenant on notes with check (true)'],
    ['a policy for another role', 'alter policy $tenant on notes to public'],
    ['a missing policy', 'drop policy $tenant on notes'],
    ['an altered policy of the owner', 'alter policy $owner on notes using (true)'],
    ['an additional policy with a name of Tenantry', 'create policy tenantry_tenant_more on notes using (true)'],
    ['disabled row security', 'alter table notes disable row level security'],
    ['a right of PUBLIC', 'grant select on notes to public'],
    ['a right of PUBLIC on a column', 'grant select (title) on notes to public'],
    ['a missing right', `revoke update on notes from ${scope}`],
    ['a readable sequence', `grant select on notes_id_seq to ${scope}`],
    ['a schema without USAGE', `revoke usage on schema ${ROWS} from ${scope}`],
  ])('%s is found and repaired', async (_, statement) => {
    const [tenant, ours] = [await policyOf('tenant'), await policyOf('owner')]
    await host.query(statement.replace('$tenant', tenant).replace('$owner', ours))
    expect((await audit()).length).toBeGreaterThan(0)
    await migrate()
    expect(await audit()).toEqual([])
    expect([await policyOf('tenant'), await policyOf('owner')]).toEqual([tenant, ours])
    expect(await titles('a')).toEqual(['of a'])
  })

  test('a schema without drift is not changed, and no table is locked, regardless of the search path', async () => {
    for (const path of [ROWS, 'tenantry, public', `pg_catalog, tenantry, ${ROWS}`]) {
      await inTransaction(host, async () => {
        await host.query(`set local search_path = ${path}`)
        await protectRows(host, ROWS, scope)
        const { rows } = await host.query(
          `select mode from pg_locks where pid = pg_backend_pid() and mode <> 'AccessShareLock' and locktype <> 'virtualxid'
           union all select 'a transaction id' where pg_current_xact_id_if_assigned() is not null`,
        )
        expect(rows).toEqual([])
        expect((await host.query('show search_path')).rows).toEqual([{ search_path: path }])
      })
    }
  })

  test('ten concurrent calls protect a table once', async () => {
    await host.query(`create table more (${TENANT_ID})`)
    const clients = await Promise.all(Array.from({ length: 10 }, () => connect(as(owner))))
    try {
      await Promise.all(clients.map((client) => client.query(rowObjects(scope))))
      await Promise.all(clients.map((client) => inTransaction(client, () => protectRows(client, ROWS, scope))))
    } finally {
      await Promise.all(clients.map((client) => client.end()))
    }
    expect(await audit()).toEqual([])
    expect((await host.query(`select from pg_policy where polrelid = 'more'::regclass`)).rowCount).toBe(2)
  })

  test('ten concurrent calls create the base objects of a database', async () => {
    await host.query('drop schema tenantry cascade')
    await host.query(`begin; ${baseObjects(scope)}; commit`)
    const clients = await Promise.all(Array.from({ length: 10 }, () => connect(as(owner))))
    try {
      await Promise.all(clients.map((client) => client.query(rowObjects(scope))))
    } finally {
      await Promise.all(clients.map((client) => client.end()))
    }
    expect(await scoped('a', 'select tenantry.admitted_tenant() as tenant')).toEqual([{ tenant: 'a' }])
  })

  test('an error names a missing schema or role', async () => {
    await expect(protectRows(host, 'nowhere', scope)).rejects.toThrow(/"nowhere"/)
    await expect(auditRows(host, ROWS, 'unknown')).rejects.toThrow(/"unknown"/)
  })
})

describe('migration of the owner', () => {
  beforeEach(withNotes)
  const everything = () => host.query('select title from notes order by title')

  test('a migration of the owner reads and changes the rows of all tenants only while it runs', async () => {
    await inTransaction(host, async () => {
      expect((await everything()).rowCount).toBe(0)
      const changed = await withoutForce(host, ROWS, () => host.query(`update notes set title = 'now ' || title`))
      expect(changed.rowCount).toBe(2)
      expect((await everything()).rowCount).toBe(0)
      await withoutForce(host, ROWS, () => host.query(`insert into notes (tenant_id, title) values ('c', 'seeded')`))
      await protectRows(host, ROWS, scope)
    })
    expect([await titles('a'), await titles('b'), await titles('c')]).toEqual([['now of a'], ['now of b'], ['seeded']])
    expect((await everything()).rowCount).toBe(0)
  })

  test('a foreign key added by a migration is checked against all rows', async () => {
    const add = (name: string) => `create table if not exists tags (${TENANT_ID}, note int);
      insert into tags (tenant_id, note) values ('a', -1);
      alter table tags add constraint ${name} foreign key (tenant_id, note) references notes (tenant_id, id)`
    await migrate(`create table tags (${TENANT_ID}, note int)`)
    const adding = inTransaction(host, () => withoutForce(host, ROWS, () => host.query(add('one'))))
    await expect(adding).rejects.toMatchObject({ code: '23503' })
  })

  test('a migration can defer row checks to its end and then have the table protected', async () => {
    const writing = (note: string) =>
      migrate(`create table tags (${TENANT_ID}, note int,
          foreign key (tenant_id, note) references notes (tenant_id, id) deferrable initially deferred);
        insert into tags (tenant_id, note) values ('a', ${note})`)
    await expect(writing('-1')).rejects.toMatchObject({ code: '23503' })
    const [{ id }] = await scoped('a', 'select id from notes')
    await writing(id)
    expect(await scoped('a', 'select note from tags')).toEqual([{ note: id }])
  })

  test('a migration takes no lock that blocks tenants’ queries, and releases its access when it fails', async () => {
    await inTransaction(host, async () => {
      const failing = withoutForce(host, ROWS, async () => {
        expect((await everything()).rowCount).toBe(2)
        expect(await titles('a')).toEqual(['of a'])
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      expect((await everything()).rowCount).toBe(0)
      await expect(withoutForce(host, ROWS, () => host.query('select 1 / 0'))).rejects.toMatchObject({ code: '22012' })
    })
    expect((await everything()).rowCount).toBe(0)
    await expect(withoutForce(host, ROWS, everything)).rejects.toThrow('needs an open transaction')
  })

  test('a migration reads the rows of all tenants also with policies of an older version', async () => {
    const { rows } = await host.query(
      `select polname from pg_policy where polrelid = 'notes'::regclass and polname like 'tenantry_owner_%'`,
    )
    await host.query(`alter policy ${rows[0].polname} on notes rename to tenantry_owner_older`)
    await inTransaction(host, async () => {
      const { rowCount } = await withoutForce(host, ROWS, everything)
      expect(rowCount).toBe(2)
    })
    expect(await audit()).toEqual([])
  })

  test('a tenant that sets the owner’s setting gets no access to other rows', async () => {
    expect(await scoped('a', `select set_config('tenantry.all_tenants', 'on', true)`)).toHaveLength(1)
    await inTransaction(tenants, async () => {
      await tenants.query(
        `select set_config('tenantry.all_tenants', 'on', true), set_config('app.tenant_id', 'a', true),
        set_config('role', $1, true)`,
        [scope],
      )
      expect((await tenants.query(`select title from ${ROWS}.notes`)).rows).toEqual([{ title: 'of a' }])
    })
  })
})

describe('fenced tenant', () => {
  beforeEach(withNotes)
  const statements = [
    'select * from notes',
    `select * from notes where id = -1`,
    `select * from notes where tenant_id = 'a' and id = -1`,
    'select * from empty',
    `insert into notes (title) values ('x')`,
    `update notes set title = 'x' where false or id = -1`,
    'delete from notes',
  ]

  test('all statements of a fenced tenant raise, those of others do not, and unfencing ends it', async () => {
    await migrate(`create table empty (${TENANT_ID})`)
    await fence(host, 'a')
    await fence(host, 'a')
    for (const statement of statements) await expect(scoped('a', statement)).rejects.toMatchObject(FENCED)
    expect(await titles('b')).toEqual(['of b'])
    await unfence(host, 'a')
    await unfence(host, 'a')
    expect(await titles('a')).toEqual(['of a'])
  })

  test('a fence applies from the next statement of an open transaction', async () => {
    const open = inTransaction(tenants, async () => {
      await tenants.query(`select set_config('app.tenant_id', 'a', true), set_config('role', $1, true)`, [scope])
      await tenants.query(`insert into ${ROWS}.notes (title) values ('before')`)
      await fence(host, 'a')
      await tenants.query(`insert into ${ROWS}.notes (title) values ('after')`)
    })
    await expect(open).rejects.toMatchObject(FENCED)
    await unfence(host, 'a')
    expect(await titles('a')).toEqual(['of a'])
  })

  test('a tenant can read only its own fence and cannot change fences', async () => {
    await fence(host, 'a')
    const fenced = 'select tenant from tenantry.fenced'
    expect(await scoped('b', fenced)).toEqual([])
    expect(await scoped('a', fenced)).toEqual([{ tenant: 'a' }])
    expect(await scoped(undefined, fenced)).toEqual([])
    for (const statement of [
      `insert into tenantry.fenced values ('b')`,
      'delete from tenantry.fenced',
      `update tenantry.fenced set tenant = 'b'`,
    ]) {
      await expect(scoped('a', statement)).rejects.toMatchObject(RAISES.denied)
    }
    await expect(tenants.query(fenced)).rejects.toMatchObject(RAISES.denied)
  })
})

describe('table shared by all tenants', () => {
  const COUNTRIES = `create table countries (code text primary key);
    comment on table countries is 'tenantry: shared'; insert into countries values ('de')`

  test('a shared table is read by all tenants, written only by migrations, and can be referenced', async () => {
    await migrate(COUNTRIES, `create table homes (${TENANT_ID}, country text references countries)`)
    expect(await scoped('a', 'select * from countries')).toEqual([{ code: 'de' }])
    await scoped('a', `insert into homes (country) values ('de')`)
    for (const statement of [
      `insert into countries values ('x')`,
      'delete from countries',
      `update countries set code = 'x'`,
    ]) {
      await expect(scoped('a', statement)).rejects.toMatchObject(RAISES.denied)
    }
    await migrate(`insert into countries values ('fr')`)
    expect(await scoped('b', 'select * from countries')).toHaveLength(2)
  })

  test('a table is shared while it has the comment', async () => {
    await migrate(`create table kinds (${TENANT_ID}, kind text)`)
    await migrate(`alter table kinds drop column tenant_id cascade`, `comment on table kinds is 'tenantry: shared'`)
    expect(await audit()).toEqual([])
    expect(await scoped('a', 'select * from kinds')).toEqual([])
    await expect(migrate(`comment on table kinds is null`)).rejects.toThrow(/"kinds": has no column tenant_id/)
  })
})
