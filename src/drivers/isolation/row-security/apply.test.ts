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
/** One statement in the scope of a tenant; of none when the id is undefined. */
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

describe('a protected table', () => {
  test('shows, changes and removes the rows of one tenant', async () => {
    await withNotes()
    expect(await titles('a')).toEqual(['of a'])
    expect(await scoped('a', `update notes set title = 'changed' returning tenant_id`)).toEqual([{ tenant_id: 'a' }])
    expect(await titles('b')).toEqual(['of b'])
    await scoped('a', 'delete from notes')
    expect(await titles('b')).toEqual(['of b'])
    expect(await titles('a')).toEqual([])
  })

  test('takes no row for another tenant, by insert, update or merge', async () => {
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

  test('partitions included, gets policies, FORCE and the four rights; a sequence gives numbers and no more', async () => {
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

  test('is read by its key, and who asks is found out once for a statement', async () => {
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
    await tenants.query('select pg_stat_force_next_flush()') // ends the count of earlier transactions
    await inTransaction(tenants, async () => {
      await tenants.query(`select set_config('app.tenant_id', 't7', true), set_config('role', $1, true)`, [scope])
      expect((await tenants.query(`select count(*)::int as n from ${ROWS}.notes`)).rows).toEqual([{ n: 200 }])
      const { rows } = await tenants.query(
        `select calls::int from pg_stat_xact_user_functions where funcname in ('admitted_tenant', 'current_tenant')`,
      )
      expect(rows).toEqual([{ calls: 1 }, { calls: 1 }])
    })
  })

  test('LIKE is tried on the tenant’s own rows, never as an index condition', async () => {
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

describe('without a tenant', () => {
  // On a connection that has had a tenant, its setting is empty for ever after, and no longer missing.
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
    '%s raises, on an empty table too, and on a connection whose setting is left empty',
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

  test('the login may not even ask, also when everybody was given the right before', async () => {
    await migrate(NOTES, 'grant all on notes to public')
    await expect(tenants.query(`select * from ${ROWS}.notes`)).rejects.toMatchObject(RAISES.denied)
  })
})

describe('what goes past the policies', () => {
  beforeEach(withNotes)

  test('an owner without FORCE: with it, the owner sees nothing and writes nothing', async () => {
    const seen = async () => (await host.query('select * from notes')).rowCount
    expect(await seen()).toBe(0)
    expect((await host.query(`update notes set title = 'x'`)).rowCount).toBe(0)
    await expect(host.query(`insert into notes (tenant_id) values ('a')`)).rejects.toMatchObject(RAISES.denied)
    await host.query('alter table notes no force row level security')
    expect(await seen()).toBe(2)
    expect(await audit()).toMatchObject([{ object: `table "${ROWS}"."notes"`, fault: 'not forced' }])
    await migrate()
    expect(await seen()).toBe(0)
  })

  test('a superuser, in spite of FORCE: which is why no tenant’s query runs as one', async () => {
    expect((await admin.query('select * from notes')).rowCount).toBe(2)
  })

  test('a plain view: refused; with security_invoker it shows the tenant’s rows', async () => {
    await admin.query(`create view mine as select * from notes; alter view mine owner to ${owner}`)
    await expect(migrate()).rejects.toThrow(/view "tenantry_rows"\."mine": reads with the rights of its owner/)
    await host.query('alter view mine set (security_invoker = on)')
    await migrate()
    expect(await scoped('a', 'select title from mine')).toEqual([{ title: 'of a' }])
    await expect(scoped(undefined, 'select title from mine')).rejects.toMatchObject(RAISES.unscoped)
  })

  test('a materialised view: refused', async () => {
    const making = inTransaction(host, async () => {
      await withoutForce(host, ROWS, () => host.query('create materialized view copied as select * from notes'))
      await protectRows(host, ROWS, scope)
    })
    await expect(making).rejects.toThrow(/materialized view "tenantry_rows"\."copied"/)
  })

  test('TRUNCATE, and the other rights that are not the tenant’s', async () => {
    for (const right of ['truncate', 'references', 'trigger', 'select (title)', 'update']) {
      await host.query(`grant ${right} on notes to ${scope} ${right === 'update' ? 'with grant option' : ''}`)
      expect(await audit()).toMatchObject([{ fault: 'the role of tenants’ queries has other rights' }])
      await migrate()
      expect(await audit()).toEqual([])
    }
    await expect(scoped('a', 'truncate notes')).rejects.toMatchObject(RAISES.denied)
    expect(await titles('b')).toEqual(['of b'])
  })

  test('a SECURITY DEFINER function: of a superuser refused, of the owner shut, even when a tenant asks for all', async () => {
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

describe('what cannot be protected is refused, with its name and what to do', () => {
  const t = `create table t (${TENANT_ID}, id int, primary key (tenant_id, id)`
  const refused: readonly [string, string, RegExp][] = [
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
      'a namesake of the default',
      `create function current_tenant() returns text language sql return 'a'; create table t (tenant_id text not null default current_tenant())`,
      /tenant_id does not default/,
    ],
    [
      'a collation that confuses ids',
      `create collation loose (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
       create table t (tenant_id text collate loose not null default tenantry.current_tenant())`,
      /tenant_id has a collation/,
    ],
    ['a primary key', `create table t (${TENANT_ID}, id int primary key)`, /the key "t_pkey" tells/],
    ['a unique constraint', `${t}, email text unique)`, /the key "t_email_key" tells/],
    [
      'a key in which tenant_id comes second',
      `create table t (${TENANT_ID}, id int, unique (id, tenant_id))`,
      /the key "t_id_tenant_id_key"/,
    ],
    [
      'a key that only includes it',
      `create table t (${TENANT_ID}, id int, unique (id) include (tenant_id))`,
      /the key "t_id_tenant_id_key"/,
    ],
    ['a unique index', `${t}); create unique index odd on t (id) where id > 0`, /the key "odd" tells/],
    [
      'a unique index over an expression',
      `${t}); create unique index odd on t (lower(tenant_id), id)`,
      /the key "odd" tells/,
    ],
    [
      'an exclusion constraint',
      `${t}, span int4range, exclude using gist (span with &&))`,
      /the exclusion constraint "t_span_excl" tells/,
    ],
    [
      'a foreign key without tenant_id',
      `${t}, other int references shared, note int);
       create table u (${TENANT_ID}, id int); create unique index one on u (id);
       alter table t add constraint odd foreign key (note) references u (id)`,
      /the foreign key "odd" tells, past the policies, whether/,
    ],
    [
      'a foreign key with tenant_id crossed',
      `${t}); create table u (${TENANT_ID}, id text, owner text,
       foreign key (owner, id) references v (tenant_id, id))`,
      /the foreign key "u_owner_id_fkey" tells/,
    ],
    [
      'a foreign key from tenant_id to something else',
      `${t}); create table u (${TENANT_ID}, owner text, constraint odd
       foreign key (tenant_id, owner) references v (id, tenant_id))`,
      /the foreign key "odd" tells, past the policies, whether/,
    ],
    [
      'a unique index whose collation confuses ids',
      `create collation loose (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
       ${t}); create unique index odd on t (tenant_id collate loose, id)`,
      /the key "odd" tells/,
    ],
    [
      'a foreign key to another schema',
      `create table public.secrets (id int primary key); ${t}, secret int references public.secrets)`,
      /"t_secret_fkey" tells, past the policies, what is in public\.secrets/,
    ],
    [
      'a foreign key of a shared table',
      `${t}); create unique index one on t (id); alter table shared add foreign key (id) references t (id)`,
      /table "tenantry_rows"\."shared": the foreign key "shared_id_fkey" tells/,
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
      'a tenants’ child of a shared table',
      `create table t (${TENANT_ID}) inherits (shared)`,
      /only one of it and tenantry_rows\.shared is declared/,
    ],
    [
      'a shared table of tenants',
      `${t}); comment on table t is 'tenantry: shared'`,
      /is declared for all tenants and has a column tenant_id/,
    ],
    [
      'a policy that widens',
      `${t}); create policy wide on t using (true)`,
      /the policy "wide" adds to what a tenant may see/,
    ],
    ['a rule', `${t}); create rule odd as on delete to t do instead nothing`, /the rule "odd" rewrites/],
    ['a schema for everybody', `${t}); grant create on schema ${ROWS} to public`, /may create objects in it/],
  ]

  test.each(refused)('%s', async (_, statements, message) => {
    await admin.query(`grant create on schema public to ${owner}`)
    const making = migrate(
      `create table shared (id int primary key); comment on table shared is 'tenantry: shared'`,
      `create table v (${TENANT_ID}, id text, primary key (tenant_id, id))`,
      statements,
    )
    await expect(making).rejects.toMatchObject({ code: 'E_MIGRATION_FAILED', message: expect.stringMatching(message) })
    expect((await host.query(`select from pg_class where relnamespace = '${ROWS}'::regnamespace`)).rowCount).toBe(0)
  })

  test('another owner’s table, a foreign table', async () => {
    await admin.query(`create table foreigner (${TENANT_ID}); create extension postgres_fdw schema public;
      create server elsewhere foreign data wrapper postgres_fdw; create foreign table far (id int) server elsewhere`)
    const refusal = await migrate().catch((error: Error) => error.message)
    expect(refusal).toMatch(/table "tenantry_rows"\."foreigner": belongs to/)
    expect(refusal).toMatch(/foreign table "tenantry_rows"\."far": row level security does not apply/)
    expect((await audit()).map(({ object }) => object)).toContain(`foreign table "${ROWS}"."far"`)
  })

  test('and what can be, is not: keys and foreign keys with tenant_id, restrictive policies', async () => {
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
    ['a policy that was altered under its name', 'alter policy $tenant on notes using (true)'],
    ['a check that was altered', 'alter policy $tenant on notes with check (true)'],
    ['a policy for others', 'alter policy $tenant on notes to public'],
    ['a policy that is gone', 'drop policy $tenant on notes'],
    ['the owner’s policy, altered', 'alter policy $owner on notes using (true)'],
    ['one more of our name', 'create policy tenantry_tenant_more on notes using (true)'],
    ['row security switched off', 'alter table notes disable row level security'],
    ['a right of everybody', 'grant select on notes to public'],
    ['a right of everybody on a column', 'grant select (title) on notes to public'],
    ['a right that is gone', `revoke update on notes from ${scope}`],
    ['a sequence that may be read', `grant select on notes_id_seq to ${scope}`],
    ['a schema that may not be used', `revoke usage on schema ${ROWS} from ${scope}`],
  ])('%s is found, and put right', async (_, statement) => {
    const [tenant, ours] = [await policyOf('tenant'), await policyOf('owner')]
    await host.query(statement.replace('$tenant', tenant).replace('$owner', ours))
    expect((await audit()).length).toBeGreaterThan(0)
    await migrate()
    expect(await audit()).toEqual([])
    expect([await policyOf('tenant'), await policyOf('owner')]).toEqual([tenant, ours])
    expect(await titles('a')).toEqual(['of a'])
  })

  test('none: nothing is changed and no table is locked, whatever the search path', async () => {
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

  test('ten at once protect a table as one', async () => {
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

  test('ten at once make what a database needs', async () => {
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

  test('a schema or a role that is not there is told', async () => {
    await expect(protectRows(host, 'nowhere', scope)).rejects.toThrow(/"nowhere"/)
    await expect(auditRows(host, ROWS, 'nobody')).rejects.toThrow(/"nobody"/)
  })
})

describe('a migration of the owner', () => {
  beforeEach(withNotes)
  const everything = () => host.query('select title from notes order by title')

  test('sees and changes the rows of all tenants while it runs, and nothing before and after', async () => {
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

  test('is checked against all rows when it adds a foreign key', async () => {
    const add = (name: string) => `create table if not exists tags (${TENANT_ID}, note int);
      insert into tags (tenant_id, note) values ('a', -1);
      alter table tags add constraint ${name} foreign key (tenant_id, note) references notes (tenant_id, id)`
    await migrate(`create table tags (${TENANT_ID}, note int)`)
    const adding = inTransaction(host, () => withoutForce(host, ROWS, () => host.query(add('one'))))
    await expect(adding).rejects.toMatchObject({ code: '23503' })
  })

  test('may leave rows to be checked at its end, in a table that is then protected', async () => {
    const writing = (note: string) =>
      migrate(`create table tags (${TENANT_ID}, note int,
          foreign key (tenant_id, note) references notes (tenant_id, id) deferrable initially deferred);
        insert into tags (tenant_id, note) values ('a', ${note})`)
    await expect(writing('-1')).rejects.toMatchObject({ code: '23503' })
    const [{ id }] = await scoped('a', 'select id from notes')
    await writing(id)
    expect(await scoped('a', 'select note from tags')).toEqual([{ note: id }])
  })

  test('takes no lock that tenants’ queries wait for, and lets go when it fails', async () => {
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

  test('sees them with policies of an older version, too', async () => {
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

  test('may not be played by a tenant that sets the same setting', async () => {
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

describe('a fenced tenant', () => {
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

  test('raises whatever it asks, others do not, and goes on when the fence is gone', async () => {
    await migrate(`create table empty (${TENANT_ID})`)
    await fence(host, 'a')
    await fence(host, 'a')
    for (const statement of statements) await expect(scoped('a', statement)).rejects.toMatchObject(FENCED)
    expect(await titles('b')).toEqual(['of b'])
    await unfence(host, 'a')
    await unfence(host, 'a')
    expect(await titles('a')).toEqual(['of a'])
  })

  test('is shut out from the next statement of an open transaction', async () => {
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

  test('is known to itself alone, and fences nobody', async () => {
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

describe('a table that all tenants share', () => {
  const COUNTRIES = `create table countries (code text primary key);
    comment on table countries is 'tenantry: shared'; insert into countries values ('de')`

  test('is read by all, written by migrations alone, and may be referenced', async () => {
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

  test('becomes one by its comment, and stops being one without it', async () => {
    await migrate(`create table kinds (${TENANT_ID}, kind text)`)
    await migrate(`alter table kinds drop column tenant_id cascade`, `comment on table kinds is 'tenantry: shared'`)
    expect(await audit()).toEqual([])
    expect(await scoped('a', 'select * from kinds')).toEqual([])
    await expect(migrate(`comment on table kinds is null`)).rejects.toThrow(/"kinds": has no column tenant_id/)
  })
})
