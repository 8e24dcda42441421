/**
 * The definition of the tenancy, for the host, for commands and for the ready-made service:
 *
 *   tenantry --app examples/own-satellite/tenancy.ts announcements:publish acme --title Hello --body World
 */
import { defineTenancy, schemaPg } from 'tenantry'
import { announcements } from './announcements.ts'

export default defineTenancy(
  {
    isolation: [schemaPg()],
    health: { critical: ['backoffice'] },
    migrations: '../migrations', // relative to this file
    satellites: [announcements()],
  },
  import.meta,
)
