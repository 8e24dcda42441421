/**
 * One run of the program: which commands there are, the one that was asked for, and the exit code. Asked for one of its own
 * commands, it does not load the others.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { OWN_HEADING, type OwnCommand, ownCommands } from './commands.ts'
import { type Invocation, runProgram } from './parser.ts'
import { Interrupted, stopSignal } from './stop-signal.ts'
import { createTerminal } from './terminal.ts'

export async function run(argv: readonly string[]): Promise<void> {
  const signal = stopSignal()
  try {
    if (argv[0] === 'complete' && argv[1] === '--') return await complete(argv.slice(2))
    const isOwn = ownCommands.some(({ name }) => name === argv.find((word) => !word.startsWith('-')))
    const groups = isOwn ? [{ heading: OWN_HEADING, commands: ownCommands }] : (await import('./program.ts')).groups
    await runProgram(groups, argv, (asked) => runOne(asked, signal))
    await nextTurn() // when a write that failed has said so
    if (signal.aborted && !(signal.reason instanceof Interrupted)) throw signal.reason
  } catch (error) {
    const { reportFailure } = await import('./exit-codes.ts')
    process.exitCode = reportFailure(error, { json: argv.includes('--json') })
  }
  // What did not end in the time it was given must not keep the process alive.
  if (signal.aborted) process.exit()
}

/** Asked by a shell, at each key. */
async function complete(words: readonly string[]): Promise<void> {
  const [{ completed, tenantIdsOf }, { allCommands }] = await Promise.all([
    import('./completion.ts'),
    import('./program.ts'),
  ])
  process.stdout.write(
    await completed(allCommands(), words, (prefix) =>
      tenantIdsOf(configLoader(words[words.indexOf('--config') + 1 || words.length]), prefix),
    ),
  )
}

async function runOne({ command, args, options, common }: Invocation<OwnCommand>, signal: AbortSignal): Promise<void> {
  const terminal = createTerminal({ ...common, signal })
  try {
    await command.run({ args, options, terminal, signal, loadConfig: configLoader(common.config) })
  } finally {
    terminal.close()
  }
}

const configLoader = (file: string | undefined) => async () => {
  const [config, { satellites }] = await Promise.all([import('../service/config.ts'), import('../service/main.ts')])
  return config.loadConfig({ file, satellites })
}
