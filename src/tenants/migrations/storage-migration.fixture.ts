/** Events and recorded versions of a storage whose migration fails: its process dies, is slow, or competes with another one. */
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import { MigrationItems } from './items.ts'
import type { MigrationRun } from './model/run.ts'
import { SchemaVersions } from './schema-versions.ts'
import { StorageMigration } from './storage-migration.ts'

const table = (name: string, checksum: string) => ({
  name,
  checksum,
  up: `create table "${name}" (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
  down: `drop table "${name}"`,
})
const ONE = table('0001_one', '1')
const TWO = table('0002_two', '2')
const THREE = table('0003_three', '3')
const IDS = ['a', 'b']

/** @param isShared whether tenants share their tables */
export function migratesStorage(isolation: string, make: () => IsolationDriver, isShared: boolean): void {
  describe(`in ${isolation}`, () => {
    let opened: TestTenancy<[]>
    beforeEach(async () => {
      opened = await testTenancy(inject('postgresUrl'), { role: 'api', isolation: [make()], migrations: [ONE] })
      for (const id of IDS) await install(opened.tenancy, id)
    })
    afterEach(() => opened.end())

    const install = async ({ tenants }: Tenancy, id: string) => {
      await tenants.create({ id, name: id })
      await tenants.installation.install(id, { isLast: true })
    }
    const sql = async (text: string, values?: unknown[]) =>
      (await opened.tenancy.kernel.database.sql(text, values)).rows
    const versions = async () =>
      (await sql('select schema_version as version from multitenancy.tenants order by id')).map(
        ({ version }) => version,
      )
    const setVersion = (version: string) => sql('update multitenancy.tenants set schema_version = $1', [version])
    const schemas = isShared ? ['tenantry_rows'] : IDS.map((id) => `t1_${id}`)
    const lose = async (name: string) => {
      for (const schema of schemas) await sql(`drop table "${schema}"."${name}"`)
      await sql('delete from tenantry.migrations where name = $1', [name])
    }
    /** Behaves like a process that dies after the commit of a storage. */
    const dying = (): IsolationDriver => {
      const driver = make()
      return {
        ...driver,
        async migrate(location, options) {
          await driver.migrate(location, options)
          throw new Error('killed')
        },
      }
    }
    const release = async (
      migrations: (typeof ONE)[],
      work: (tenancy: Tenancy, published: Recorded) => Promise<void>,
      driver = make(),
    ) => {
      const tenancy = await opened.open({ migrations, isolation: [driver] })
      try {
        await work(tenancy, recorded(tenancy))
      } finally {
        await tenancy.stop()
      }
    }
    const migrationsOf = (published: Recorded) =>
      published.events
        .filter(({ name }) => name === 'TenantMigrated')
        .map(({ tenantId, migrations }) => [tenantId, migrations])
        .sort()
    const everybody = (migrations: string[]) => IDS.map((id) => [id, migrations])

    test('a run with `verify` publishes a migration that the recorded version already contained', async () => {
      await release([ONE, TWO, THREE], async ({ tenants }, published) => {
        await tenants.migrations.run()
        published.events.splice(0)
        await lose(TWO.name)
        expect(await tenants.migrations.run()).toMatchObject({ total: 0 })
        const { items, state } = await tenants.migrations.run({ verify: true })
        expect(state).toBe('completed')
        for (const { migrations } of items) expect(migrations).toEqual([TWO.name])
        expect(migrationsOf(published)).toEqual(everybody([TWO.name]))
        published.events.splice(0)
        expect(await tenants.migrations.run({ verify: true })).toMatchObject({ state: 'completed' })
        expect(migrationsOf(published)).toEqual([])
      })
    })

    test('a run publishes the migrations it ran in addition to new ones', async () => {
      await release([ONE, TWO], async ({ tenants }) => void (await tenants.migrations.run()))
      await lose(TWO.name)
      await release([ONE, TWO, THREE], async ({ tenants }, published) => {
        const { items } = await tenants.migrations.run()
        for (const { migrations } of items) expect(migrations).toEqual([TWO.name, THREE.name])
        expect(migrationsOf(published)).toEqual(everybody([TWO.name, THREE.name]))
      })
    })

    test.each([
      ['was unknown', { verify: false }],
      ['was wrong', { verify: true }],
    ])('the next process publishes the migrations of a killed process if the version before %s', async (_, options) => {
      await release(
        [ONE, TWO],
        async ({ tenants }, published) => {
          if (options.verify) {
            // The recorded version contains the migration.
            await release([ONE, TWO], async (other) => void (await other.tenants.migrations.run()))
            await lose(TWO.name)
          } else await setVersion('')
          const report = await tenants.migrations.run({ ...options, retries: 0 })
          expect(report).toMatchObject({ state: 'failed', done: 0 })
          expect(migrationsOf(published)).toEqual([])
        },
        dying(),
      )
      await release([ONE, TWO], async ({ tenants }, published) => {
        const { items, state } = await tenants.migrations.run()
        expect(state).toBe('completed')
        for (const { migrations } of items) expect(migrations).toEqual([TWO.name])
        expect(migrationsOf(published)).toEqual(everybody([TWO.name]))
        expect(await tenants.migrations.run({ verify: true })).toMatchObject({ state: 'completed' })
        expect(migrationsOf(published)).toHaveLength(IDS.length)
      })
    })

    describe('a rollback', () => {
      let run: MigrationRun
      beforeEach(async () => {
        await release([ONE, TWO], async ({ tenants }) => void (await tenants.migrations.run()))
        run = {
          ...{
            id: uuidv7(),
            direction: 'down',
            steps: 1,
            scope: 'all',
            target: 'v',
            state: 'running',
            isCancelled: false,
          },
          ...{ isBackground: false, actor: null, requestId: null, counts: null },
          ...{ retries: 0, lockTimeoutMs: 1_000, stopAfterFailures: null, createdAt: new Date(), finishedAt: null },
        }
        await sql(
          `insert into multitenancy.migration_runs
           (id, direction, steps, scope, target, state, retries, lock_timeout_ms, worked_until, created_at)
         values ($1, 'down', 1, 'all', 'v', 'running', 0, 1000, now(), now())`,
          [run.id],
        )
        await sql(
          `insert into multitenancy.migration_items (run_id, storage, tenant_id, isolation, placement)
         select distinct $1::uuid, case when $2 then isolation || '/' || placement else id end,
           case when $2 then null else id end, isolation, placement from multitenancy.tenants`,
          [run.id, isShared],
        )
      })
      const migrationOf = ({ kernel, tenants }: Tenancy, items: MigrationItems) =>
        new StorageMigration({
          ...{ kernel, run, items },
          storage: tenants.storage,
          versions: new SchemaVersions(kernel.database, [ONE, TWO]),
        })
      const itemsOf = ({ kernel }: Tenancy, leaseMs: number) => new MigrationItems(kernel.database, run, leaseMs)

      test('that was taken over does not change the recorded version', async () => {
        const { tenancy } = opened
        const slow = itemsOf(tenancy, 60_000)
        const [item] = await slow.claim(1)
        if (!item) throw new Error('nothing was claimed')
        await sql(`update multitenancy.migration_items set worker = $1 where state = 'running'`, [uuidv7()])
        await setVersion('as another process has settled it')
        expect(await migrationOf(tenancy, slow).run(item)).toMatchObject({ state: 'pending', ran: [] })
        expect(new Set(await versions())).toEqual(new Set(['as another process has settled it']))
      })

      if (isShared)
        test('starts again if a tenant was installed before it: no tenant counts as up to date while it runs', async () => {
          const driver = make()
          let asked = 0
          const seen: string[][] = []
          const watched: IsolationDriver = {
            ...driver,
            async applied(location) {
              if (asked++ === 0) await install(opened.tenancy, 'late')
              return driver.applied(location)
            },
            async rollback(...of) {
              seen.push(await versions())
              return driver.rollback(...of)
            },
          }
          await release(
            [ONE, TWO],
            async (tenancy) => {
              const items = itemsOf(tenancy, 60_000)
              const [item] = await items.claim(1)
              if (!item) throw new Error('nothing was claimed')
              const migration = migrationOf(tenancy, items)
              expect(await migration.run(item)).toMatchObject({ state: 'pending', ran: [] })
              expect(seen).toEqual([])
              expect(await migration.run(item)).toMatchObject({ state: 'done', ran: [TWO.name] })
              expect(seen).toEqual([['', '', '']])
            },
            watched,
          )
        })
    })
  })
}
