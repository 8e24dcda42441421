/** The definition of the type tests: tables, and names of every kind. */
import type { Generated } from 'kysely'
import { defineSatellite, defineTenancy, event, tables } from 'tenantry'
import { auditLogs } from 'tenantry/satellites/audit-logs'
import { featureFlags } from 'tenantry/satellites/feature-flags'
import { metrics } from 'tenantry/satellites/metrics'
import { quotas } from 'tenantry/satellites/quotas'
import { secret, settings } from 'tenantry/satellites/settings'
import { webhooks } from 'tenantry/satellites/webhooks'
import { z } from 'zod'

export interface Database {
  notes: { id: Generated<number>; title: string }
}

class Parcels {
  async count(tenantId: string): Promise<number> {
    return tenantId.length
  }
}

const ParcelSentToBuyer = event('ParcelSentToBuyer', 'A parcel has left', z.object({ tenantId: z.string() }))
const ParcelWeighed = event('ParcelWeighed', 'Not sent', z.object({ tenantId: z.string() }), { isInternal: true })

export const parcels = () =>
  defineSatellite({
    name: 'parcels',
    summary: 'Counts parcels',
    events: [ParcelSentToBuyer, ParcelWeighed],
    service: () => new Parcels(),
  })

export const definition = defineTenancy({
  tables: tables<Database>(),
  isolation: ['schema-pg'],
  plans: {
    defaultPlan: 'free',
    definitions: { free: { limits: { exports: 10 } }, pro: { limits: { exports: 1_000, seats: 50 } } },
  },
  satellites: [
    auditLogs(),
    quotas({ unlimited: ['api-calls'] }),
    featureFlags({ flags: ['new-editor', 'new-search'] }),
    webhooks({ events: { 'note.created': z.object({ id: z.number(), title: z.string().default('') }) } }),
    metrics({ metrics: ['notes'] }),
    settings({ define: { 'upload.mb': z.int().default(10), 'mail.password': secret(z.string()) } }),
    parcels(),
  ],
})
