/** The value of a key on a day, in the API and in exports. */
import { z } from 'zod'
import { formatsOf } from '../../kernel/api/export-format.ts'
import { MetricKey } from './key.ts'

const members = {
  key: MetricKey,
  period: z.iso.date().meta({ description: 'Day in UTC' }),
  value: z.int().min(0),
}

export const Metric = z.object(members).meta({ id: 'Metric' })
export type Metric = z.output<typeof Metric>

export const MetricOfTenant = z.object({ tenantId: z.string(), ...members }).meta({ id: 'MetricOfTenant' })
export type MetricOfTenant = z.output<typeof MetricOfTenant>

export const FORMATS = formatsOf<Metric>({
  key: ({ key }) => key,
  period: ({ period }) => period,
  value: ({ value }) => String(value),
})

export const FORMATS_OF_ALL = formatsOf<MetricOfTenant>({
  tenantId: ({ tenantId }) => tenantId,
  key: ({ key }) => key,
  period: ({ period }) => period,
  value: ({ value }) => String(value),
})
