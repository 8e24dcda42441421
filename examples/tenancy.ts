/** The tenancy of the hosts, as data: `tenantry --app examples/tenancy.ts tenant:list` runs with the same settings. */
import { defineTenancy, schemaPg, tables } from 'tenantry'

/** The tables of examples/migrations, for Kysely. */
interface Database {
  notes: { id: number; title: string; created_at: Date }
}

export default defineTenancy(
  {
    tables: tables<Database>(),
    isolation: [schemaPg()],
    migrations: './migrations',
    health: { critical: ['backoffice'] },
  },
  import.meta, // paths are relative to this file
)
