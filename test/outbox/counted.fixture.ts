/** Satellites of a tenancy whose posts are lines of a ledger, and counted as a metric. */
import { metrics } from '../../src/satellites/metrics/index.ts'
import { ledger } from '../../src/tenants/outbox/outbox.fixture.ts'

export type CountedSatellites = [ReturnType<typeof ledger>, ReturnType<typeof metrics>]
export const countedSatellites = (): CountedSatellites => [ledger(), metrics()]
export const COUNTED = 'notes'
