import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

export const SettingChanged = event(
  'SettingChanged',
  "A tenant's setting was set or deleted",
  z.object({
    tenantId: z.string(),
    name: z.string(),
    isSecret: z.boolean(),
    isSet: z.boolean().describe('False if the value was deleted: the value of the plan or the default applies'),
  }),
)
