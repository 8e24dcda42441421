/**
 * Records each typed event of billing in the transaction that publishes it, so the table contains each event as often
 * as it was published, also after a crash.
 */
import { onAny } from '../../kernel/events/events.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import { events } from './model/events.ts'

const NAMES: ReadonlySet<string> = new Set(events.map(({ name }) => name))

/** @param onEvent called after the insert, before the commit */
export const eventRecorder = (onEvent: (name: string) => void = () => undefined) =>
  defineSatellite({
    name: 'eventRecorder',
    summary: 'Records published events of billing',
    tables: [
      {
        name: '0001_recorded_events',
        up: 'create table recorded_events (name text not null, payload jsonb not null)',
      },
    ],
    service: (kernel: Kernel) => kernel,
    listeners: [
      onAny('within', async ({ database }: Kernel, { name }, event) => {
        if (!NAMES.has(name)) return
        await database.sql('insert into multitenancy.recorded_events (name, payload) values ($1, $2)', [name, event])
        onEvent(name)
      }),
    ],
  })
