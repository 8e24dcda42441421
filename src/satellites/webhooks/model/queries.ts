/** Query parameters of lists, for the service and for HTTP. */
import { z } from 'zod'
import { MomentOrDate, Page } from '../../../kernel/api/page.ts'
import { TenantId } from '../../../tenants/tenant/tenant.ts'
import { DeliveryState } from './delivery.ts'
import { EventName } from './event-names.ts'

export const ListQuery = z.strictObject({ ...Page.shape })

const filters = {
  ...Page.shape,
  state: DeliveryState.optional(),
  event: EventName.optional(),
  status: z
    .string()
    .regex(/^(none|[1-5]xx|[1-5]\d\d)$/, 'must be a status such as 503, a class such as 5xx, or none')
    .optional()
    .meta({
      description: 'Last HTTP status: one, a class such as 5xx, or none for attempts without a response',
      example: '5xx',
    }),
  sameResponseAs: z.uuid().optional().meta({
    description:
      'Only deliveries whose last attempt has the same status, error and body of the response as the last one of this delivery',
  }),
  from: MomentOrDate.optional().meta({ description: 'Dispatched at or after' }),
  to: MomentOrDate.optional().meta({ description: 'Dispatched before' }),
}

export const ORDER = { error: 'must be before `to`', path: ['from'] }
export const isOrdered = ({ from, to }: { from?: Date | undefined; to?: Date | undefined }): boolean =>
  !from || !to || from < to

export const DeliveryQuery = z.strictObject(filters).refine(isOrdered, ORDER).describe('Filter of deliveries')
export type DeliveryFilter = z.output<typeof DeliveryQuery>

export const AllDeliveriesQuery = z
  .strictObject({
    tenantId: TenantId.optional().meta({ description: 'Only deliveries to subscriptions of this tenant' }),
    ...filters,
  })
  .refine(isOrdered, ORDER)
export type DeliveryFilterOfAll = z.output<typeof AllDeliveriesQuery>
