/** Processes of the backoffice as a part: their list, and the diagnosis of different settings. */
import { z } from 'zod'
import { commandsOf } from '../kernel/api/projection.ts'
import { processesDiagnosis } from '../kernel/doctor/processes.ts'
import { part } from '../kernel/part.ts'
import type { Part } from '../kernel/part-definition.ts'
import type { ListedProcess, Processes } from '../kernel/processes/processes.ts'

const { operation } = part<Processes>()

const Process = z
  .object({
    id: z.uuid(),
    name: z.string().meta({ description: 'Host and process id' }),
    role: z.enum(['all', 'api', 'worker', 'command']),
    version: z.string(),
    startedAt: z.iso.datetime(),
    heartbeatAt: z.iso.datetime(),
    isLive: z.boolean().meta({ description: 'Whether it holds its lock and had a heartbeat in the last 30 s' }),
    isThis: z.boolean().meta({ description: 'Whether it is the process that responds' }),
    differences: z
      .array(
        z.object({
          setting: z.string().meta({ description: 'Name of the setting, such as `isolation.drivers.database-pg`' }),
          here: z.string().nullable().meta({ description: 'Value in the process that responds; null if it has none' }),
          there: z.string().nullable().meta({ description: 'Value in this process; null if it has none' }),
          isConflict: z.boolean().meta({ description: 'Whether the difference is never valid' }),
        }),
      )
      .meta({ description: 'Differences of its settings to those of the process that responds' }),
  })
  .meta({ id: 'Process' })

const shown = ({ settings: _, startedAt, heartbeatAt, ...process }: ListedProcess): z.input<typeof Process> => ({
  ...process,
  role: process.role as z.input<typeof Process>['role'],
  startedAt: startedAt.toISOString(),
  heartbeatAt: heartbeatAt.toISOString(),
  differences: [...process.differences],
})

const operations = [
  operation({
    name: 'processes.list',
    method: 'GET',
    path: '/processes',
    summary: 'List the processes of the installation, and differences of their settings',
    description: 'Processes without a heartbeat for a day are not listed. Settings have no secrets.',
    reply: z.object({ data: z.array(Process) }),
    command: {
      name: 'processes',
      rows: ({ data }) =>
        data.map(({ name, role, version, isLive, isThis, startedAt, differences }: z.output<typeof Process>) => ({
          name: isThis ? `${name} (this)` : name,
          role,
          version,
          state: isLive ? 'live' : 'dead',
          startedAt,
          differences: differences
            .map(({ setting, isConflict }) => (isConflict ? `${setting} (conflict)` : setting))
            .join(' '),
        })),
    },
    handle: async (processes) => ({ data: (await processes.list()).map(shown) }),
  }),
]

export const processesPart: Part<'processes', Processes> = {
  name: 'processes',
  service: ({ processes }) => processes,
  operations,
  commands: commandsOf(operations),
  doctor: [processesDiagnosis],
}
