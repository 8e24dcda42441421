/**
 * One run of the program: which commands there are, the one that was asked for, and the exit code.
 *
 * The commands of tenants and satellites are read from their declarations, so help opens nothing. Asked for one of the
 * program's own, it does not even load them.
 */
import type { Command } from '../kernel/commands.ts'
import { SatelliteDisabled } from '../kernel/errors.ts'
import { type OwnCommand, ownCommands } from './commands.ts'
import { type CommandGroup, type Invocation, runProgram } from './program.ts'
import { stopSignal } from './stop-signal.ts'
import { createTerminal } from './terminal.ts'
import { withTenancy } from './with-tenancy.ts'

export async function run(argv: readonly string[]): Promise<void> {
  const signal = stopSignal()
  try {
    const isOwn = ownCommands.some(({ name }) => name === argv.find((word) => !word.startsWith('-')))
    const own = { heading: 'The service:', commands: ownCommands }
    await runProgram(isOwn ? [own] : [own, ...(await commandsOfParts())], argv, (asked) => runOne(asked, signal))
  } catch (error) {
    const { reportFailure } = await import('./exit-codes.ts')
    process.exitCode = reportFailure(error, { json: argv.includes('--json') })
  }
  // What did not end in the time it was given must not keep the process alive.
  if (signal.aborted) process.exit()
}

async function runOne({ command, args, options, common }: Invocation<OwnCommand>, signal: AbortSignal): Promise<void> {
  const terminal = createTerminal({ ...common, signal })
  const loadConfig = async () => {
    const config = await import('../service/config.ts')
    return config.loadConfig({ file: common.config })
  }
  try {
    await command.run({ args, options, terminal, signal, loadConfig })
  } finally {
    terminal.close()
  }
}

async function commandsOfParts(): Promise<CommandGroup<OwnCommand>[]> {
  const [tenants, { satellites }] = await Promise.all([import('../tenants/commands.ts'), import('../service/main.ts')])
  const parts = [{ name: 'tenants', commands: tenants.commands }, ...satellites]
  return parts
    .filter(({ commands = [] }) => commands.length > 0)
    .map(({ name, commands = [] }) => ({
      heading: headingOf(name),
      commands: commands.map((command) => inTenancy(name, command)),
    }))
}

/** A part's command as one of the program: it is given the part's service, of a tenancy that is open while it runs. */
const inTenancy = (part: string, command: Command): OwnCommand => ({
  ...command,
  run: (input) =>
    withTenancy(input, { needsWorker: command.needsWorker }, async (tenancy) => {
      const bound = tenancy.commands.find(({ what }) => what === command || what.name === command.name)
      if (!bound) throw SatelliteDisabled(`The satellite "${part}" is switched off.`)
      await bound.what.run(bound.service, input)
    }),
})

/** `auditLogs` as "Audit logs:". */
function headingOf(name: string): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}:`
}
