/** Schema of the setting `plans`. */
import { z } from 'zod'
import { PlanDefinition, type PlansConfig } from '../../tenants/registry/plans.ts'

export const Plans = z
  .strictObject({
    defaultPlan: z.string().min(1).describe('Plan of a tenant that names none'),
    definitions: z
      .record(
        z.string().min(1).max(128),
        PlanDefinition.extend({
          limits: PlanDefinition.shape.limits.describe('Limits by quota. A quota without a limit is unlimited'),
          backups: PlanDefinition.shape.backups.describe('`{ keep, everyHours }` in place of those of `backups`'),
          settings: PlanDefinition.shape.settings.describe('Values of settings by name, see `settings.define`'),
        }),
      )
      .describe('Plans by name'),
    getPlan: z
      .custom<NonNullable<PlansConfig['getPlan']>>((value) => typeof value === 'function', 'must be a function')
      .optional()
      .describe("Function `(tenant) => plan` that resolves a tenant's plan in place of `metadata.plan`"),
  })
  .refine(
    ({ defaultPlan, definitions }) => Object.hasOwn(definitions, defaultPlan),
    'defaultPlan must be a name in definitions',
  )

/** Example plans of a service without configured plans. */
export const EXAMPLE_PLANS: z.input<typeof Plans> = {
  defaultPlan: 'free',
  definitions: { free: { limits: {} }, pro: { limits: {} }, enterprise: { limits: {} } },
}
