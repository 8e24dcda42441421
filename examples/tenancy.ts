/** The tenancy of the hosts, as data: `tenantry --app examples/tenancy.ts tenant:list` runs with the same settings. */
import { defineTenancy, schemaPg } from 'tenantry'

export default defineTenancy(
  { isolation: [schemaPg()], migrations: './migrations', health: { critical: ['backoffice'] } },
  import.meta, // paths are relative to this file
)
