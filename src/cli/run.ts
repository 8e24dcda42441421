/** Runs one invocation of the program and returns its exit code. The program's own commands do not load the others. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { OWN_HEADING, type OwnCommand, ownCommands } from './commands.ts'
import type { OwnInput } from './parser/own-input.ts'
import { type Invocation, runProgram } from './parser/parser.ts'
import type { ProcessContext } from './process/context.ts'
import { Interrupted } from './process/stop-signal.ts'
import { createTerminal } from './terminal/terminal.ts'

/**
 * Returns the exit code.
 *
 * @param signal ends the run; a reason other than Interrupted is its failure.
 */
export async function run(
  argv: readonly string[],
  context: ProcessContext,
  signal: AbortSignal,
  openTenancy: OwnInput['openTenancy'] = openOwn,
): Promise<number> {
  try {
    if (argv[0] === 'complete' && argv[1] === '--') {
      await complete(argv.slice(2), context)
      return 0
    }
    const isOwn = ownCommands.some(({ name }) => name === argv.find((word) => !word.startsWith('-')))
    const groups = isOwn ? [{ heading: OWN_HEADING, commands: ownCommands }] : (await import('./program.ts')).groups
    await runProgram(groups, argv, (invocation) => runOne(invocation, { context, signal, openTenancy }), context.stdout)
    await nextTurn() // when a write that failed has said so
    if (signal.aborted && !(signal.reason instanceof Interrupted)) throw signal.reason
    return 0
  } catch (error) {
    const { reportFailure } = await import('./exit-codes.ts')
    return reportFailure(error, { json: argv.includes('--json') }, context)
  }
}

/** Asked by a shell, at each key. */
async function complete(words: readonly string[], { env, stdout }: ProcessContext): Promise<void> {
  const [{ completed, tenantIdsOf }, { allCommands }] = await Promise.all([
    import('./completion/completion.ts'),
    import('./program.ts'),
  ])
  stdout.write(
    await completed(allCommands(), words, (prefix) =>
      tenantIdsOf(configLoader(words[words.indexOf('--config') + 1 || words.length], env), prefix),
    ),
  )
}

async function runOne(
  { command, args, options, common }: Invocation<OwnCommand>,
  given: Pick<OwnInput, 'context' | 'signal' | 'openTenancy'>,
): Promise<void> {
  const { context, signal } = given
  const terminal = createTerminal({ ...common, signal, context })
  try {
    await command.run({ ...given, args, options, terminal, loadConfig: configLoader(common.config, context.env) })
  } finally {
    terminal.close()
  }
}

const configLoader = (file: string | undefined, env: NodeJS.ProcessEnv) => async () => {
  const [config, { satellites }] = await Promise.all([import('../service/config.ts'), import('../service/main.ts')])
  return config.loadConfig({ env, file, satellites })
}

/** Loaded only by the commands that need it. */
const openOwn: OwnInput['openTenancy'] = async (...given) => (await import('../service/main.ts')).openTenancy(...given)
