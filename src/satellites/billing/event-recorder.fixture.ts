/**
 * Writes down each typed event of billing in the transaction that publishes it: what is in its table was published exactly as often as
 * it stands there, whatever became of the process afterwards.
 */
import { onAny } from '../../kernel/events/events.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import { events } from './model/events.ts'

const NAMES: ReadonlySet<string> = new Set(events.map(({ name }) => name))

/** @param onEvent after it was written down, and before that is committed */
export const eventRecorder = (onEvent: (name: string) => void = () => undefined) =>
  defineSatellite({
    name: 'eventRecorder',
    summary: 'Writes down what billing has said',
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
