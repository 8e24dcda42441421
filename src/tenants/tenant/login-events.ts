/** Event of the login that tenants share on a server. It belongs to no tenant, so only the program receives it. */
import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

export const TenantLoginRestored = event(
  'TenantLoginRestored',
  "The login of tenants' queries had another password or other defaults on a server, and was restored",
  z.object({
    placement: z.string(),
    login: z.string(),
    passwordChanged: z.boolean().meta({ description: 'Whether the server rejected the password' }),
    settings: z.array(z.string()).meta({ description: 'Names of the restored defaults' }),
  }),
  { isInternal: true },
)
