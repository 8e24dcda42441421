/** Common interface of ORM libraries: opening on a tenancy, and queries of the current tenant. */
import { EntitySchema as MikroEntity, MikroORM, NullCacheAdapter } from '@mikro-orm/postgresql'
import { PrismaPg } from '@prisma/adapter-pg'
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import createKnex from 'knex'
import KnexPg from 'knex/lib/dialects/postgres/index.js'
import { CompiledQuery, Kysely, sql } from 'kysely'
import pg from 'pg'
import { DataTypes, Sequelize } from 'sequelize'
import { DataSource, EntitySchema } from 'typeorm'
import { knexClient, prismaAdapter, sequelizeDefaults, type Tenancy, type Tenant } from '../../src/index.ts'
import { PrismaClient } from './generated/client.ts'

/** Operations of a library on the table `notes`, with or without a transaction. */
export interface Notes {
  insert(id: number, body: string): Promise<unknown>
  bodies(): Promise<(string | null)[]>
  /** Returns the column `value` of a single row. */
  value(text: string): Promise<unknown>
  /** Runs a statement of `tenant.statements`. */
  run(statement: { readonly text: string; readonly values: readonly unknown[] }): Promise<unknown>
}

export interface Session extends Notes {
  /** `bodies` with the library's result cache. */
  cachedBodies?(): Promise<(string | null)[]>
  /** Serializable. */
  transaction(work: (notes: Notes) => Promise<void>): Promise<void>
}

export interface Library {
  readonly of: (tenant: Tenant) => Session | Promise<Session>
  /** SQLSTATE of a unique violation, where the library exposes it; default `code`. */
  readonly codeOf?: (error: any) => unknown
  readonly close: () => Promise<unknown>
}

const BODIES = 'select body from notes order by id'
const INSERT = 'insert into notes (id, body) values ($1, $2)'
const one = (rows: readonly any[]): unknown => rows[0]?.value

const raw = (client: { query(text: string, values?: unknown[]): Promise<{ rows: any[] }> }): Notes => ({
  insert: (id, body) => client.query(INSERT, [id, body]),
  bodies: async () => (await client.query(BODIES)).rows.map(({ body }) => body),
  value: async (text) => one((await client.query(text)).rows),
  run: ({ text, values }) => client.query(text, [...values]),
})

const ofPool = (pool: pg.Pool): Session => ({
  ...raw(pool),
  async transaction(work) {
    const client = await pool.connect()
    try {
      await client.query('begin isolation level serializable')
      await work(raw(client))
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  },
})

const ofKysely = (db: Kysely<any>): Session => {
  const notes = (on: Kysely<any>): Notes => ({
    insert: (id, body) => on.insertInto('notes').values({ id, body }).execute(),
    bodies: async () => (await on.selectFrom('notes').select('body').orderBy('id').execute()).map(({ body }) => body),
    value: async (text) => one((await sql.raw<any>(text).execute(on)).rows),
    run: ({ text, values }) => on.executeQuery(CompiledQuery.raw(text, [...values])),
  })
  return {
    ...notes(db),
    transaction: (work) =>
      db
        .transaction()
        .setIsolationLevel('serializable')
        .execute((tx) => work(notes(tx))),
  }
}

const table = pgTable('notes', { id: integer().notNull(), body: text() })

function ofDrizzle(client: pg.Pool): Session {
  const db = drizzle({ client })
  const notes = (on: Pick<typeof db, 'insert' | 'select' | 'execute'>): Notes => ({
    insert: (id, body) => on.insert(table).values({ id, body }),
    bodies: async () => (await on.select({ body: table.body }).from(table).orderBy(table.id)).map(({ body }) => body),
    value: async (text) => one((await on.execute(drizzleSql.raw(text))).rows),
    run({ values }) {
      const parameters = values.map((value) => drizzleSql`${value}`)
      return on.execute(drizzleSql`select tenantry.post(${drizzleSql.join(parameters, drizzleSql`, `)})`)
    },
  })
  return {
    ...notes(db),
    transaction: (work) => db.transaction((tx) => work(notes(tx as never)), { isolationLevel: 'serializable' }),
  }
}

type PrismaNotes = Pick<PrismaClient, 'notes' | '$queryRawUnsafe' | '$executeRawUnsafe'>

const ofPrisma = (use: <T>(work: (prisma: PrismaClient) => Promise<T>) => Promise<T>): Session => {
  const notes = (using: <T>(work: (on: PrismaNotes) => Promise<T>) => Promise<T>): Notes => ({
    insert: (id, body) => using((on) => on.notes.create({ data: { id, body } })),
    bodies: async () => (await using((on) => on.notes.findMany({ orderBy: { id: 'asc' } }))).map(({ body }) => body),
    value: async (text) => one(await using((on) => on.$queryRawUnsafe<any[]>(text))),
    run: ({ text, values }) => using((on) => on.$executeRawUnsafe(text, ...values)),
  })
  return {
    ...notes(use),
    transaction: (work) =>
      use((prisma) =>
        prisma.$transaction((tx) => work(notes((inside) => inside(tx as never))), { isolationLevel: 'Serializable' }),
      ),
  }
}

const Note = new EntitySchema<{ id: number; body: string | null }>({
  name: 'notes',
  columns: { id: { type: 'int', primary: true }, body: { type: 'text', nullable: true } },
})

const ofTypeOrm = (source: DataSource): Session => {
  const notes = (on: DataSource['manager']): Notes => ({
    insert: (id, body) => on.insert(Note, { id, body }),
    bodies: async () => (await on.find(Note, { order: { id: 'asc' } })).map(({ body }) => body),
    value: async (text) => one(await on.query(text)),
    run: ({ text, values }) => on.query(text, [...values]),
  })
  return {
    ...notes(source.manager),
    cachedBodies: async () => (await source.manager.find(Note, { cache: 60_000 })).map(({ body }) => body),
    transaction: (work) => source.transaction('SERIALIZABLE', (tx) => work(notes(tx))),
  }
}

const ofSequelize = (sequelize: Sequelize): Session => {
  const Model = sequelize.define(
    'notes',
    { id: { type: DataTypes.INTEGER, primaryKey: true }, body: DataTypes.TEXT },
    { timestamps: false, freezeTableName: true },
  )
  const notes = (transaction?: any): Notes => ({
    insert: (id, body) => Model.create({ id, body }, { transaction }),
    bodies: async () => (await Model.findAll({ order: ['id'], transaction })).map((row: any) => row.body),
    value: async (text) => one((await sequelize.query(text, { transaction }))[0]),
    run: ({ text, values }) => sequelize.query(text, { bind: [...values], transaction }),
  })
  return {
    ...notes(),
    transaction: (work) =>
      sequelize.transaction({ isolationLevel: 'SERIALIZABLE' as never }, (transaction) => work(notes(transaction))),
  }
}

const ofKnex = (knex: any): Session => {
  const notes = (on: any): Notes => ({
    insert: (id, body) => on('notes').insert({ id, body }),
    bodies: async () => (await on('notes').select('body').orderBy('id')).map(({ body }: any) => body),
    value: async (text) => one((await on.raw(text)).rows),
    run: ({ text, values }) => on.raw(text.replace(/\$\d/g, '?'), values),
  })
  return {
    ...notes(knex),
    transaction: (work) => knex.transaction((tx: any) => work(notes(tx)), { isolationLevel: 'serializable' }),
  }
}

const MikroNote = new MikroEntity<{ id: number; body: string | null }>({
  name: 'MikroNote',
  tableName: 'notes',
  properties: { id: { type: 'integer', primary: true }, body: { type: 'text', nullable: true } },
})

export const ofMikro = (orm: MikroORM): Session => {
  const notes = (em: any): Notes => ({
    insert: (id, body) => em.insert(MikroNote, { id, body }),
    bodies: async () => (await em.find(MikroNote, {}, { orderBy: { id: 'asc' } })).map(({ body }: any) => body),
    value: async (text) => one(await em.execute(text)),
    run: ({ text, values }) => em.execute(text.replace(/\$\d/g, '?'), values),
  })
  return {
    insert: (id, body) => notes(orm.em.fork()).insert(id, body),
    bodies: () => notes(orm.em.fork()).bodies(),
    cachedBodies: async () => (await orm.em.fork().find(MikroNote, {}, { cache: 60_000 })).map(({ body }) => body),
    value: (text) => notes(orm.em.fork()).value(text),
    run: (statement) => notes(orm.em.fork()).run(statement),
    transaction: (work) =>
      orm.em.fork().transactional((em) => work(notes(em)), { isolationLevel: 'serializable' as never }),
  }
}

const nothing = async () => undefined

export const openMikro = ({ dialect }: Pick<Tenant, 'dialect'>, options: object = {}): Promise<MikroORM> =>
  MikroORM.init({
    entities: [MikroNote],
    dbName: 'of-the-handle',
    driverOptions: dialect as never,
    ensureDatabase: false,
    ...options,
  } as never)

/** Opened inside the context of a tenant. */
export const libraries: Readonly<Record<string, (tenancy: Tenancy) => Promise<Library>>> = {
  'raw pg': async () => ({ of: ({ pool }) => ofPool(pool), close: nothing }),
  'raw pg, tenancy.pg': async (tenancy) => {
    const pool = new tenancy.pg.Pool()
    return { of: () => ofPool(pool), close: () => pool.end() }
  },
  'another copy of pg': async () => ({ of: ({ pool }) => ofPool(new pg.Pool(pool as never)), close: nothing }),
  'another copy of Kysely': async (tenancy) => ({
    of: () => ofKysely(new Kysely<any>({ dialect: tenancy.dialect as never })),
    close: nothing,
  }),
  Drizzle: async () => ({
    of: ({ pool }) => ofDrizzle(pool as never),
    codeOf: (error) => error.cause.code,
    close: nothing,
  }),
  /** The clients are closed when the tenancy stops. */
  async Prisma(tenancy) {
    const clients = tenancy.perTenant((tenant) => new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) }), {
      dispose: (prisma) => prisma.$disconnect(),
    })
    return {
      of: () => ofPrisma((work) => clients.current(work)),
      codeOf: ({ code, meta }) => code === 'P2002' && meta.driverAdapterError.cause.originalCode,
      close: nothing,
    }
  },
  async TypeORM(tenancy) {
    const source = await new DataSource({ type: 'postgres', driver: tenancy.pg, entities: [Note] }).initialize()
    return { of: () => ofTypeOrm(source), close: () => source.destroy() }
  },
  async Sequelize(tenancy) {
    const sequelize = new Sequelize({ dialectModule: tenancy.pg, logging: false, ...sequelizeDefaults })
    return { of: () => ofSequelize(sequelize), codeOf: (error) => error.parent.code, close: () => sequelize.close() }
  },
  async Knex(tenancy) {
    const knex = createKnex({ client: knexClient(KnexPg, tenancy.pg) as any, connection: {} })
    return { of: () => ofKnex(knex), close: () => knex.destroy() }
  },
  async 'Knex, connectionPool'() {
    return {
      of: ({ pool }) => ofKnex(createKnex({ client: 'pg', connectionPool: pool } as never)),
      close: nothing,
    }
  },
  async MikroORM(tenancy) {
    const orm = await openMikro(tenancy, { resultCache: { adapter: NullCacheAdapter } })
    return { of: () => ofMikro(orm), close: () => orm.close() }
  },
}
