/** The numbers of rows that a drop reports, with and without triggers of the host. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { IsolationDriver, Placement } from '../../../tenants/isolation/driver.ts'
import { createInstallation, type Installation, locationOf } from '../roles/installation.fixture.ts'
import { rowscopePg } from '../rowscope-pg.ts'

const OWN = `tenant_id text not null default tenantry.current_tenant()`
const TABLES = {
  name: '0001_tables',
  checksum: '',
  up: `
    create table projects (${OWN}, id int, primary key (tenant_id, id));
    create table "Tasks" (${OWN}, id int, project int, foreign key (tenant_id, project) references projects on delete cascade);
    create table events (${OWN}, at int) partition by range (at);
    create table events_old partition of events for values from (0) to (10);
    create table events_new partition of events for values from (10) to (20);
    create table "unused" (${OWN})`,
}
const JOURNAL = {
  name: '0002_journal',
  checksum: '',
  up: `
    create table journal (${OWN}, note text);
    create function write_journal() returns trigger language plpgsql as $$
      begin insert into journal (note) values ('deleted'); return old; end $$;
    create trigger journal after delete on projects for each row execute function write_journal()`,
}
const ROWS = `
  insert into projects (id) values (1), (2);
  insert into "Tasks" (id, project) values (1, 1), (2, 1), (3, 2);
  insert into events (at) values (1), (2), (11), (12), (13)`
const COUNTS = [
  { kind: 'tenantry_rows."Tasks"', count: 3 },
  { kind: 'tenantry_rows.events', count: 5 },
  { kind: 'tenantry_rows.projects', count: 2 },
]
const byKind = <One extends { kind: string }>(all: readonly One[]) =>
  all.toSorted((one, other) => (one.kind < other.kind ? -1 : 1))

describe.each(['a superuser', 'a non-superuser owner'])('the drop of a tenant by %s', (who) => {
  const owner = `owner_${Math.random().toString(36).slice(2, 10)}`
  let installation: Installation
  let placement: Placement
  let plain: IsolationDriver

  beforeAll(async () => {
    const as = (url: string) => Object.assign(new URL(url), { username: owner, password: 'p' }).href
    installation = await createInstallation(inject('postgresUrl'), {
      driver: () => rowscopePg(),
      migrations: [TABLES],
      ...(who === 'a superuser' ? {} : { ownerUrl: as }),
    })
    const { database, url } = installation
    await database.sql(`create role ${owner} login password 'p' createrole`)
    await database.sql(`grant create on database ${new URL(url).pathname.slice(1)} to ${owner}`)
    placement = await installation.prepare()
    plain = await installation.open(placement)
  })
  afterAll(async () => {
    await installation?.end()
    const client = new pg.Client({ connectionString: inject('postgresUrl') })
    await client.connect()
    await client.query(`drop role if exists ${owner}`)
    await client.end()
  })

  const filled = async (driver: IsolationDriver, tenantId: string) => {
    const location = locationOf(driver, tenantId)
    await driver.provision(location)
    for (const text of ROWS.split(';')) await driver.execute(location, { text })
    return location
  }
  const dropped = async (driver: IsolationDriver, tenantId: string) => {
    const counts: unknown[] = []
    await driver.drop(locationOf(driver, tenantId), { onRows: async (found) => void counts.push(byKind(found)) })
    return counts
  }
  const searched = async (tenantId: string, beforeDrop: boolean) =>
    byKind((await plain.search?.('main', tenantId, 1, [], { beforeDrop })) ?? [])

  test('reports the rows of its tables, partitions and references once, as a search does', async () => {
    for (const tenantId of ['a', 'b', 'staying']) {
      await filled(plain, tenantId)
      expect(await searched(tenantId, false)).toEqual(COUNTS)
      expect(await searched(tenantId, true)).toEqual([])
    }
    for (const tenantId of ['a', 'b']) {
      expect(await dropped(plain, tenantId)).toEqual([COUNTS])
      expect(await searched(tenantId, false)).toEqual([])
      expect(await dropped(plain, tenantId)).toEqual([])
    }
    expect(await searched('staying', false)).toEqual(COUNTS)
  })

  test('is rolled back if its numbers cannot be recorded', async () => {
    const location = await filled(plain, 'unrecorded')
    const onRows = () => Promise.reject(new Error('not recorded'))
    await expect(plain.drop(location, { onRows })).rejects.toThrow('not recorded')
    expect(await searched('unrecorded', false)).toEqual(COUNTS)
    expect(await dropped(plain, 'unrecorded')).toEqual([COUNTS])
  })

  test('calls no function of another role in `public` or in the path of the tables', async () => {
    await filled(plain, 'trapped')
    const { database } = installation
    const planted = [
      ['public.format(text, text, name)', 'text'],
      ['public.json_agg(name)', 'json'],
      ['tenantry_rows.unnest(oid[])', 'setof oid'],
      ['tenantry_rows.pg_partition_tree(oid)', 'table (relid oid)'],
      ['tenantry_rows.pg_stat_get_xact_tuples_deleted(regclass)', 'bigint'],
    ] as const
    for (const [name, result] of planted) {
      await database.sql(
        `create function ${name} returns ${result} language plpgsql as $$ begin raise 'called as %', current_user; end $$`,
      )
    }
    expect(await dropped(plain, 'trapped')).toEqual([COUNTS])
    for (const [name] of planted) await database.sql(`drop function ${name}`)
  })

  test('reports no rows that triggers have written', async () => {
    const journalling = await installation.open(placement, {
      driver: () => rowscopePg(),
      migrations: [TABLES, JOURNAL],
    })
    await journalling.provision(locationOf(journalling, 'journalled'))
    await journalling.migrate(locationOf(journalling, 'journalled'))
    await filled(journalling, 'journalled')
    expect(await dropped(journalling, 'journalled')).toEqual([COUNTS])
    expect(await searched('journalled', false)).toEqual([])
  })
})
