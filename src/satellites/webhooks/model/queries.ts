/** Query parameters of lists, for the service and for HTTP. */
import { z } from 'zod'
import { MomentOrDate, Page } from '../../../kernel/api/page.ts'
import { DeliveryState } from './delivery.ts'
import { EventName } from './event-names.ts'

export const ListQuery = z.strictObject({ ...Page.shape })

export const DeliveryQuery = z
  .strictObject({
    ...Page.shape,
    state: DeliveryState.optional(),
    event: EventName.optional(),
    from: MomentOrDate.optional().meta({ description: 'Dispatched at or after' }),
    to: MomentOrDate.optional().meta({ description: 'Dispatched before' }),
  })
  .refine(({ from, to }) => !from || !to || from < to, { error: 'must be before `to`', path: ['from'] })
  .describe('Filter of deliveries')
export type DeliveryFilter = z.output<typeof DeliveryQuery>
