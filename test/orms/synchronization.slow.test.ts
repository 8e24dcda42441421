/** Synchronization of tables by real libraries: a tenant's handle rejects it with a hint. */
import { EntitySchema as MikroEntity, MikroORM } from '@mikro-orm/postgresql'
import { DataTypes, Sequelize } from 'sequelize'
import { DataSource, EntitySchema } from 'typeorm'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg, rowscopePg, schemaPg, sequelizeDefaults, type Tenant } from '../../src/index.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/index.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, body text,
    primary key (tenant_id, id))`,
}
const HINT =
  /(permission denied for schema|must be owner of table|CREATE DATABASE cannot run inside a transaction) \S+\. Statements of a tenant read and write rows .*Change tables by a migration, and disable schema synchronization of the ORM/

/** Changes the table `name` to `id` and `title`. */
const libraries: Record<string, (tenant: Tenant, name: string) => Promise<unknown>> = {
  'synchronize: true of TypeORM': async ({ pg }, name) => {
    const columns = { id: { type: 'int', primary: true }, title: { type: 'text' } } as const
    const entities = [new EntitySchema({ name, columns })]
    const source = new DataSource({
      type: 'postgres',
      driver: pg,
      entities,
      installExtensions: false,
      synchronize: true,
    })
    await source.initialize().finally(() => source.isInitialized && source.destroy())
  },
  'sync({ alter: true }) of Sequelize': async ({ pg }, name) => {
    const sequelize = new Sequelize({ dialectModule: pg, logging: false, ...sequelizeDefaults })
    const columns = { id: { type: DataTypes.INTEGER, primaryKey: true }, title: DataTypes.TEXT }
    sequelize.define(name, columns, { timestamps: false, freezeTableName: true })
    await sequelize.sync({ alter: true }).finally(() => sequelize.close())
  },
  'schema.update() of MikroORM': async ({ dialect }, tableName) => {
    const properties = { id: { type: 'integer', primary: true }, title: { type: 'text' } } as const
    const orm = await MikroORM.init({
      entities: [new MikroEntity({ name: 'Note', tableName, properties })],
      dbName: 'of-the-handle',
      driverOptions: dialect as never,
      ensureDatabase: false,
    } as never)
    await orm.schema.update().finally(() => orm.close())
  },
}

describe.each([
  ['schema-pg', schemaPg],
  ['rowscope-pg', rowscopePg],
  ['database-pg', databasePg],
])('%s', (_, driver) => {
  let world: TestTenancy<[]>
  let acme: Tenant
  beforeAll(async () => {
    world = await testTenancy(inject('postgresUrl'), { migrations: [NOTES], isolation: [driver()] })
    await installed(world.tenancy, { id: 'acme', name: 'Acme' })
    acme = await world.tenancy.tenant('acme')
  })
  afterAll(() => world.end())

  const columns = async () =>
    (await acme.pool.query(`select * from notes`)).fields.map(({ name }: { name: string }) => name)

  test.each(
    Object.keys(libraries).flatMap((library) => [
      [library, 'a new table', 'drafts'],
      [library, 'an existing table', 'notes'],
    ]),
  )('%s is rejected with a hint for %s', async (library, __, table) => {
    const before = await columns()
    await expect(libraries[library]?.(acme, table)).rejects.toThrow(HINT)
    expect(await columns()).toEqual(before)
    await expect(acme.pool.query('select from drafts')).rejects.toThrow('does not exist')
  })
})
