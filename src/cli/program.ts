/** Lists all commands: the program's own, and those of tenants and satellites, which run in an open tenancy or on a remote service. */
import type { Command } from '../kernel/api/commands.ts'
import type { ProjectedCommand } from '../kernel/api/projection.ts'
import { SatelliteDisabled } from '../kernel/base/errors.ts'
import { satellites } from '../service/main.ts'
import { commands as tenantCommands } from '../tenants/commands/tenants.ts'
import { outboxPart } from '../tenants/outbox/part.ts'
import { withTenancy } from './commands/with-tenancy.ts'
import { OWN_HEADING, type OwnCommand, ownCommands } from './commands.ts'
import type { CommandGroup } from './parser/parser.ts'
import { runRemotely } from './remote/caller.ts'

/** Declarations for the parser, help and the reference. A tenancy is opened only when a command runs. */
export const groups: readonly CommandGroup<OwnCommand>[] = [
  { heading: OWN_HEADING, commands: ownCommands },
  ...[{ name: 'tenants', commands: tenantCommands }, outboxPart, ...satellites]
    .filter(({ commands = [] }) => commands.length > 0)
    .map(({ name, commands = [] }) => ({
      heading: headingOf(name),
      commands: commands.map((command) => inTenancy(name, command)),
    })),
]

export const allCommands = (): OwnCommand[] => groups.flatMap(({ commands }) => commands)

function inTenancy(part: string, command: Command): OwnCommand {
  return {
    ...command,
    isLocal: !isProjected(command),
    run: async (input) => {
      const target = isProjected(command) ? await input.remote() : undefined
      if (target && isProjected(command)) return runRemotely(command, target, input)
      await withTenancy(input, { needsWorker: command.needsWorker }, async ({ commands }) => {
        const wired = commands.find(({ what }) => what.name === command.name)
        if (!wired) throw SatelliteDisabled(`Satellite "${part}" is disabled.`)
        await wired.what.run(wired.service, input)
      })
    },
  }
}

function isProjected(command: Command): command is ProjectedCommand {
  return 'runWith' in command
}

/** Converts `auditLogs` to "Audit logs:". */
function headingOf(name: string): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}:`
}
