/** Runs one invocation of the program. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { InvalidRequest } from '../kernel/base/errors.ts'
import { OWN_HEADING, type OwnCommand, ownCommands } from './commands.ts'
import type { OwnInput } from './parser/own-input.ts'
import { type Invocation, runProgram } from './parser/parser.ts'
import { withSecrets } from './parser/secret-options.ts'
import type { ProcessContext } from './process/context.ts'
import { Interrupted } from './process/stop-signal.ts'
import { createTerminal } from './terminal/terminal.ts'

/**
 * Prints the error of a failed run, and returns the exit code.
 *
 * @param signal ends the run. The run fails if the reason is not Interrupted.
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
    // The program's own commands run without loading the others.
    const isOwn = ownCommands.some(({ name }) => name === argv.find((word) => !word.startsWith('-')))
    const groups = isOwn ? [{ heading: OWN_HEADING, commands: ownCommands }] : (await import('./program.ts')).groups
    await runProgram(groups, argv, (invocation) => runOne(invocation, { context, signal, openTenancy }), context.stdout)
    await nextTurn() // a failed write emits its error by then
    if (signal.aborted && !(signal.reason instanceof Interrupted)) throw signal.reason
    return 0
  } catch (error) {
    const { reportFailure } = await import('./exit-codes.ts')
    return reportFailure(error, { json: argv.includes('--json') }, context)
  }
}

/** Prints completions. A shell calls this at each key press. */
async function complete(words: readonly string[], { env, stdout }: ProcessContext): Promise<void> {
  const [{ completed, remoteTenantIds, tenantIdsOf }, { remoteTarget }, { Profiles }, { allCommands }] =
    await Promise.all([
      import('./completion/completion.ts'),
      import('./remote/target.ts'),
      import('./remote/profiles.ts'),
      import('./program.ts'),
    ])
  const given = (option: string) => words[words.indexOf(option) + 1 || words.length]
  const config = given('--config')
  stdout.write(
    await completed(allCommands(), words, {
      tenantIds: async (prefix) => {
        const target = await remoteTarget(env, { config, profile: given('--profile') })
        return target ? remoteTenantIds(target, prefix) : tenantIdsOf(configLoader(config, env), prefix)
      },
      profiles: () => new Profiles(env).names(),
    }),
  )
}

async function runOne(
  { command, args, options, common }: Invocation<OwnCommand>,
  given: Pick<OwnInput, 'context' | 'signal' | 'openTenancy'>,
): Promise<void> {
  const { context, signal } = given
  const terminal = createTerminal({ ...common, signal, context })
  const remote = async () => (await import('./remote/target.ts')).remoteTarget(context.env, common)
  try {
    const { profile, config } = common
    if (command.isOwnMachine && profile !== undefined) {
      throw InvalidRequest(`${command.name} calls no remote service. Omit --profile.`)
    }
    if (command.readsNoConfig && config !== undefined) {
      throw InvalidRequest(`${command.name} reads no configuration. Omit --config.`)
    }
    if (command.isLocal) await assertLocal(command.name, remote)
    const loadConfig = configLoader(config, context.env)
    const input = { ...given, args, terminal, profile, remote, loadConfig }
    await command.run({ ...input, options: await withSecrets(command, options, terminal) })
  } finally {
    terminal.close()
  }
}

async function assertLocal(name: string, remote: OwnInput['remote']): Promise<void> {
  const target = await remote()
  if (target) throw (await import('./remote/target.ts')).databaseOnly(name, target)
}

const configLoader = (file: string | undefined, env: NodeJS.ProcessEnv) => async () => {
  const [config, { satellites }] = await Promise.all([import('../service/config.ts'), import('../service/main.ts')])
  return config.loadConfig({ env, file, satellites })
}

/** Loads the service only for commands that open a tenancy. */
const openOwn: OwnInput['openTenancy'] = async (...given) => (await import('../service/main.ts')).openTenancy(...given)
