/** Runs one invocation of the program. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { InvalidRequest } from '../kernel/base/errors.ts'
import { takeApp } from './app-option.ts'
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
  const { argv: words, apps } = takeApp(argv)
  try {
    if (argv[0] === 'complete' && argv[1] === '--') {
      await complete(argv.slice(2), context)
      return 0
    }
    if (apps.length > 1) throw InvalidRequest('Give --app or --config once.')
    const [app] = apps
    const groups = await groupsFor(words, app, context)
    await runProgram(
      groups,
      words,
      (invocation) => runOne(invocation, { app, context, signal, openTenancy }),
      context.stdout,
    )
    await nextTurn() // a failed write emits its error by then
    if (signal.aborted && !(signal.reason instanceof Interrupted)) throw signal.reason
    return 0
  } catch (error) {
    const { reportFailure } = await import('./exit-codes.ts')
    return reportFailure(error, { json: argv.includes('--json') }, context)
  }
}

/** Commands of the host's satellites need its file. The program's own commands run without loading the others. */
async function groupsFor(words: readonly string[], app: string | undefined, { env, stderr }: ProcessContext) {
  const name = words.find((word) => !word.startsWith('-'))
  if (ownCommands.some((command) => command.name === name)) return [{ heading: OWN_HEADING, commands: ownCommands }]
  const { allCommands, groups, groupsWith } = await import('./program.ts')
  if (allCommands().some((command) => command.name === name)) return groups
  const { groups: all, fault } = await groupsWith(app, env)
  if (fault === undefined) return all
  const isHelp = name === undefined || name === 'help' || words.includes('--help')
  if (!isHelp) throw new (await import('../service/config.ts')).ConfigurationError([fault])
  stderr.write(`${fault}\nThe commands of the host's satellites are not listed.\n`)
  return all
}

/** Prints completions. A shell calls this at each key press. */
async function complete(words: readonly string[], { env, stdout }: ProcessContext): Promise<void> {
  const [{ completed, remoteTenantIds, tenantIdsOf }, { remoteTarget }, { Profiles }, { allCommands, groupsWith }] =
    await Promise.all([
      import('./completion/completion.ts'),
      import('./remote/target.ts'),
      import('./remote/profiles.ts'),
      import('./program.ts'),
    ])
  const { argv, apps } = takeApp(words.slice(0, -1))
  const [app] = apps
  const typed = [...argv, ...words.slice(-1)]
  const profile = typed[typed.indexOf('--profile') + 1 || typed.length]
  const { groups } = await groupsWith(app, env)
  stdout.write(
    await completed(allCommands(groups), typed, {
      tenantIds: async (prefix) => {
        const target = await remoteTarget(env, { config: app, profile })
        return target ? remoteTenantIds(target, prefix) : tenantIdsOf(configLoader(app, env), prefix)
      },
      profiles: () => new Profiles(env).names(),
    }),
  )
}

interface Given extends Pick<OwnInput, 'context' | 'signal' | 'openTenancy'> {
  /** Value of `--app`. */
  readonly app: string | undefined
}

async function runOne(
  { command, args, options, common }: Invocation<OwnCommand>,
  { app, ...given }: Given,
): Promise<void> {
  const { context, signal } = given
  const { profile } = common
  const terminal = createTerminal({ ...common, signal, context })
  const remote = async () => (await import('./remote/target.ts')).remoteTarget(context.env, { config: app, profile })
  try {
    if (command.isOwnMachine && profile !== undefined) {
      throw InvalidRequest(`${command.name} calls no remote service. Omit --profile.`)
    }
    if (command.readsNoConfig && app !== undefined) {
      throw InvalidRequest(`${command.name} reads no configuration. Omit --app and --config.`)
    }
    if (command.isLocal) await assertLocal(command.name, remote)
    const loadConfig = configLoader(app, context.env)
    const values = await withSecrets(command, { args, options }, terminal)
    await command.run({ ...given, ...values, terminal, profile, remote, loadConfig })
  } finally {
    terminal.close()
  }
}

async function assertLocal(name: string, remote: OwnInput['remote']): Promise<void> {
  const target = await remote()
  if (target) throw (await import('./remote/target.ts')).databaseOnly(name, target)
}

const configLoader =
  (file: string | undefined, env: NodeJS.ProcessEnv) =>
  async (isService = false) => {
    const [config, { satellites }] = await Promise.all([import('../service/config.ts'), import('../service/main.ts')])
    return config.loadConfig({ env, file, satellites, isCommand: !isService })
  }

/** Loads the service only for commands that open a tenancy. */
const openOwn: OwnInput['openTenancy'] = async (...given) => (await import('../service/main.ts')).openTenancy(...given)
