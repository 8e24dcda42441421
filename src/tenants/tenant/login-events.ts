/** Of the login that tenants share on a server: it belongs to no tenant, so this event is for the program alone. */
import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

export const TenantLoginRestored = event(
  'TenantLoginRestored',
  "The login of tenants' queries had another password or other defaults on a server, and was restored",
  z.object({
    placement: z.string(),
    login: z.string(),
    passwordChanged: z.boolean().meta({ description: 'Whether the server refused the password' }),
    settings: z.array(z.string()).meta({ description: 'Names of the defaults that were restored' }),
  }),
  { isInternal: true },
)
