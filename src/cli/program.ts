/** Lists all commands: the program's own, and those of tenants and satellites, which run in an open tenancy or on a remote service. */
import type { Command } from '../kernel/api/commands.ts'
import type { ProjectedCommand } from '../kernel/api/projection.ts'
import { SatelliteDisabled } from '../kernel/base/errors.ts'
import { findApp } from '../service/app-file.ts'
import { satellites } from '../service/main.ts'
import { isSatellite, NO_SATELLITE } from '../service/settings.ts'
import { activityPart } from '../tenancy/activity/part.ts'
import { processesPart } from '../tenancy/processes.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import { sessionsPart, tokensPart } from '../tenancy/tokens/parts.ts'
import { bulkPart } from '../tenants/bulk/part.ts'
import { commands as tenantCommands } from '../tenants/commands/tenants.ts'
import { erasuresPart } from '../tenants/erasure/part.ts'
import { outboxPart } from '../tenants/outbox/part.ts'
import { overviewPart } from '../tenants/overview/part.ts'
import { withTenancy } from './commands/with-tenancy.ts'
import { ALLOW_DIFFERENT, OWN_HEADING, type OwnCommand, ownCommands } from './commands.ts'
import type { CommandGroup } from './parser/parser.ts'
import { runRemotely } from './remote/caller.ts'

type Declared = Pick<Satellite, 'name' | 'commands'>

/** Declarations for the parser, help and the reference. A tenancy is opened only when a command runs. */
export const groups: readonly CommandGroup<OwnCommand>[] = [
  { heading: OWN_HEADING, commands: ownCommands },
  ...groupsOf([
    { name: 'tenants', commands: [...tenantCommands, ...(erasuresPart.commands ?? []), ...(bulkPart.commands ?? [])] },
    outboxPart,
    processesPart,
    overviewPart,
    tokensPart,
    sessionsPart,
    activityPart,
    ...satellites,
  ]),
]

export const allCommands = (all = groups): OwnCommand[] => all.flatMap(({ commands }) => commands)

/** The groups, and those of the host's own satellites in the file of the installation. Starts nothing. */
export async function groupsWith(app: string | undefined, env: NodeJS.ProcessEnv) {
  const { content, path, fault: unreadable } = await findApp(process.cwd(), app, env)
  const { satellites: given } = (content ?? {}) as { satellites?: unknown }
  const all: readonly unknown[] = Array.isArray(given) ? given : []
  const own = all.filter(isSatellite).filter(({ name }) => !satellites.some((one) => one.name === name))
  const invalid = all.findIndex((one) => !isSatellite(one))
  const fault = unreadable ?? (invalid === -1 ? undefined : `satellites.${invalid}: ${NO_SATELLITE}`)
  return { groups: [...groups, ...groupsOf(own)], fault: fault && `${path}: ${fault}` }
}

function groupsOf(declared: readonly Declared[]): CommandGroup<OwnCommand>[] {
  return declared
    .filter(({ commands = [] }) => commands.length > 0)
    .map(({ name, commands = [] }) => ({
      heading: headingOf(name),
      commands: commands.map((command) => inTenancy(name, command)),
    }))
}

function inTenancy(part: string, command: Command): OwnCommand {
  const { changesStorage = false } = command
  return {
    ...command,
    ...(changesStorage ? { options: [...(command.options ?? []), ALLOW_DIFFERENT] } : {}),
    isLocal: !isProjected(command),
    run: async (input) => {
      const target = isProjected(command) ? await input.remote() : undefined
      if (target && isProjected(command)) return runRemotely(command, target, input)
      const needs = {
        needsWorker: command.needsWorker,
        needsSameSettings: input.options.allowDifferentSettings === true ? false : changesStorage,
        keepsTablesOf: isRead(command) ? part : undefined,
      }
      await withTenancy(input, needs, async ({ commands }) => {
        const wired = commands.find(({ what }) => what.name === command.name)
        if (!wired) throw SatelliteDisabled(`Satellite "${part}" is disabled.`)
        await wired.what.run(wired.service, input)
      })
    },
  }
}

const isRead = (command: Command): boolean => isProjected(command) && command.operation.method === 'GET'

function isProjected(command: Command): command is ProjectedCommand {
  return 'runWith' in command
}

/** Converts `auditLogs` to "Audit logs:". */
function headingOf(name: string): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}:`
}
