/** Creates and fills the storage of one tenant: a schema that exists with all of its tables or not at all. */
import pg from 'pg'
import type { MakingOptions } from '../../tenants/isolation/driver.ts'
import { copyIn } from './copy/copy-in.ts'
import type { PostgresDialect, TenantStorage } from './postgres-dialect.ts'
import { rightsIn } from './roles/grants.ts'
import { importTables } from './table-import/import-tables.ts'

export interface Container {
  /** Creates the container of the schema, closed to the tenant. */
  make(storage: TenantStorage, options: MakingOptions): Promise<void>
  /** Opens the container to the tenant. */
  open(storage: TenantStorage): Promise<void>
}

/** @param container default: the database of the placement */
export const ownStorage = (container?: Container): Pick<PostgresDialect, 'provision' | 'import' | 'importTables'> => ({
  importTables: (storage, fill, { baseline, finish, hold }) =>
    storage.migrating(
      (client, read) => importTables(client, { ...storage, scopeRole: storage.server.scopeRole, baseline }, read, fill),
      { finish, hold, isTemporary: true },
    ),

  async provision(storage, options) {
    await container?.make(storage, options)
    const ran = await storage.migrating(async (client, read) => {
      await options.assertNotAbandoned?.()
      await client.query(schemaText(storage))
      return storage.migrator.install(client, storage.schema, storage.searchPath, read)
    })
    await container?.open(storage)
    return ran
  },

  async import(storage, copy, { signal, onPhase, assertNotAbandoned, hold }) {
    onPhase?.('making')
    await container?.make(storage, { assertNotAbandoned })
    signal.throwIfAborted()
    const { log } = storage.server
    const imported = await storage.migrating(
      async (client, read) => {
        await assertNotAbandoned?.()
        return copyIn(client, { ...storage, making: schemaText(storage) }, read, copy, { onPhase, log })
      },
      { hold },
    )
    await container?.open(storage)
    return imported
  },
})

function schemaText({ schema, server }: TenantStorage): string {
  const name = pg.escapeIdentifier(schema)
  return `create schema if not exists ${name}; ${rightsIn(name, pg.escapeIdentifier(server.scopeRole))}`
}
