/** Provides Kysely over one client inside a transaction that the caller ends, for migrations written in TypeScript. */
import {
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import type pg from 'pg'
import { kyselyResult } from '../../../tenants/handles/kysely.ts'

export const kyselyOn = (client: pg.ClientBase): Kysely<any> =>
  new Kysely<any>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new SingleClientDriver(client),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })

class SingleClientDriver implements Driver {
  readonly #client: pg.ClientBase

  constructor(client: pg.ClientBase) {
    this.#client = client
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return {
      executeQuery: async ({ sql, parameters }) => kyselyResult(await this.#client.query(sql, [...parameters])),
      streamQuery: () => {
        throw new Error('streaming is not available in a migration')
      },
    }
  }

  beginTransaction(): Promise<void> {
    throw new Error('a migration already runs in a transaction')
  }

  async commitTransaction(): Promise<void> {}
  async rollbackTransaction(): Promise<void> {}
  async releaseConnection(): Promise<void> {}
  async destroy(): Promise<void> {}
}
