import { z } from 'zod'
import { event } from '../../../kernel/events/events.ts'
import { FlagSettings } from './flag.ts'

export const FeatureFlagChanged = event(
  'FeatureFlagChanged',
  "A tenant's flag was created, changed or deleted",
  z.object({
    tenantId: z.string(),
    key: z.string(),
    before: FlagSettings.nullable().describe('Null for a new flag'),
    after: FlagSettings.nullable().describe('Null for a deleted flag'),
  }),
)
