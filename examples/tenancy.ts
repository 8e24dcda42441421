/** The tenancy of the hosts, as data: `tenantry --app examples/tenancy.ts tenant:list` runs with the same settings. */
import { defineTenancy, schemaPg, tables } from 'tenantry'

export default defineTenancy(
  {
    tables: tables<{ notes: { id: number; title: string; created_at: Date } }>(), // for Kysely
    isolation: [schemaPg()],
    migrations: './migrations',
    health: { critical: ['backoffice'] },
  },
  import.meta, // paths are relative to this file
)
