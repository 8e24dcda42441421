/** Determines the structure that migrations create, in a staging schema that is rolled back. Reads it once per process. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { notAdoptable } from '../../../tenants/isolation/adoption.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { membersOf, membersText } from '../catalog/schema-members.ts'
import { reading } from '../migrations/migration-records.ts'
import { baseObjects } from '../migrations/postgres-migrator.ts'
import { rightsIn } from '../roles/grants.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import { runPinned } from '../transactions/pinned-text.ts'
import type { AdoptableStorage } from './storage.ts'
import { readStructure, type Structure } from './structure.ts'

/** Ends the transaction of the staging schema. */
class Read extends Error {
  readonly structure: Structure

  constructor(structure: Structure) {
    super('the staging schema is rolled back')
    this.structure = structure
  }
}

export class ExpectedStructures {
  readonly #known = new WeakMap<PostgresServer, Map<string, Promise<Structure>>>()

  /** @param baseline names of migrations in order; without any, the structure is empty */
  of(storage: AdoptableStorage, baseline: readonly string[]): Promise<Structure> {
    if (baseline.length === 0) return Promise.resolve(new Map())
    const { server } = storage
    const here = this.#known.get(server) ?? new Map<string, Promise<Structure>>()
    this.#known.set(server, here)
    const key = JSON.stringify(baseline)
    const known =
      here.get(key) ??
      made(storage, baseline).catch((error) => {
        here.delete(key)
        throw error
      })
    here.set(key, known)
    return known
  }
}

async function made(storage: AdoptableStorage, baseline: readonly string[]): Promise<Structure> {
  const { server, migrator, searchPathOf, owned } = storage
  const schema = `tenantry_scratch_${randomBytes(16).toString('hex')}`
  const name = pg.escapeIdentifier(schema)
  try {
    await owned((client) =>
      inTransaction(client, async () => {
        await client.query(baseObjects(server.scopeRole)) // a database that is not adopted yet has none
        await client.query(reading(schema))
        await client.query(`create schema ${name}; ${rightsIn(name, pg.escapeIdentifier(server.scopeRole))}`)
        await migrator.installOnly(client, schema, searchPathOf(schema), baseline)
        const [found] = await runPinned(client, membersText(schema))
        const members = membersOf(found?.rows)
        if (!members) throw new Error('The staging schema was dropped')
        throw new Read(await readStructure(client, members, schema, searchPathOf(schema)))
      }),
    )
  } catch (error) {
    if (error instanceof Read) return error.structure
    if (MigrationFailed.matches(error))
      throw notAdoptable([`the migrations fail in a staging schema: ${error.message}`])
    throw error
  }
  throw new Error('unreachable')
}
