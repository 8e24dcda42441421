/**
 * Parses arguments by the declarations of commands, prints help, and passes the invocation to `run`.
 * - It names no command and opens nothing.
 */
import { CommanderError, InvalidArgumentError, Command as Parser, Option as ParserOption } from 'commander'
import type { Command, Option } from '../../kernel/api/commands.ts'
import { InvalidRequest, TenancyError } from '../../kernel/base/errors.ts'
import { VERSION } from '../../tenancy/version.ts'
import type { Output } from '../process/context.ts'
import { isRepeatable, shownFlags, summaryOf, unlessStdin } from './secret-options.ts'

/** Declaration of a command without its function. */
export type Described = Pick<Command, 'name' | 'summary' | 'arguments' | 'options'> & {
  /** Lines at the end of its help. */
  readonly notes?: readonly string[]
  /** Whether it needs the database, so that it cannot run on a remote service. */
  readonly isLocal?: boolean
  /** Whether it concerns this machine only, so that it rejects `--profile`. */
  readonly isOwnMachine?: boolean
  /** Whether it reads no configuration, so that it rejects `--app`. */
  readonly readsNoConfig?: boolean
}

export interface CommandGroup<One extends Described> {
  readonly heading: string
  readonly commands: readonly One[]
}

/** A command with its parsed arguments and options. */
export interface Invocation<One extends Described> {
  readonly command: One
  readonly args: Readonly<Record<string, string>>
  readonly options: Readonly<Record<string, any>>
  readonly common: CommonOptions
}

export interface CommonOptions {
  readonly json: boolean
  readonly yes: boolean
  /** Name of a remote service. */
  readonly profile: string | undefined
}

/** Options of every command. */
export const COMMON_OPTIONS: readonly Option[] = [
  { flags: '--json', summary: 'print the result as one JSON value' },
  { flags: '--yes', summary: 'confirm destructive commands without a prompt' },
  { flags: '--app <file>', summary: 'use the definition or configuration in this file' },
  { flags: '--config <file>', summary: 'the same' },
  { flags: '--profile <name>', summary: 'run on the remote service of this profile' },
]
/** For help and the reference. */
export const LOCAL_ONLY = 'Runs on the database only, not on a remote service.'

/** Columns of help if standard output is not a terminal. */
const HELP_WIDTH = 80
const COMMON_HEADING = 'Options of every command:'

/** Prints help, or calls `run` with the parsed `argv`. Rejects invalid arguments with E_INVALID_REQUEST. */
export async function runProgram<One extends Described>(
  groups: readonly CommandGroup<One>[],
  argv: readonly string[],
  run: (invocation: Invocation<One>) => Promise<void>,
  stdout: Output = process.stdout,
): Promise<void> {
  const program = createProgram(groups, run, stdout)
  try {
    await program.parseAsync(wordsFor(program, argv), { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return
    throw InvalidRequest(error.message.replace(/^error: /, ''))
  }
}

/** The help of an unknown command is the error of this command, which names the most similar one. */
function wordsFor({ commands }: Parser, argv: readonly string[]): readonly string[] {
  const [first, name] = argv
  if (first === undefined || (first === 'help' && name === 'help')) return ['help']
  if (first !== 'help' || name === undefined || name.startsWith('-')) return argv
  return commands.some((command) => command.name() === name) ? argv : [name]
}

function createProgram<One extends Described>(
  groups: readonly CommandGroup<One>[],
  run: (invocation: Invocation<One>) => Promise<void>,
  stdout: Output,
): Parser {
  const program = new Parser('tenantry')
    .description('The control plane of a multi-tenant SaaS.')
    .version(VERSION, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand('help [command]', 'print the help of a command')
    .usage('<command> [options]')
    .addHelpText('after', '\nShow the options of a command: tenantry help <command>')
    // Disables the error output of Commander: exit-codes.ts prints all errors.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      getOutHelpWidth: () => (stdout.isTTY && stdout.columns) || HELP_WIDTH,
      writeErr: () => undefined,
      outputError: () => undefined,
    })
  for (const { heading, commands } of groups) {
    for (const command of commands) add(program, command, heading, run)
  }
  return program
}

function add<One extends Described>(
  program: Parser,
  command: One,
  heading: string,
  run: (invocation: Invocation<One>) => Promise<void>,
): void {
  const parser = program.command(command.name).description(command.summary).helpGroup(heading)
  const names = (command.arguments ?? []).map((argument) => {
    const { name, required, isRepeatable, separator = ' ' } = argument
    const shown = isRepeatable ? `${name}...` : name
    parser.argument(required ? `<${shown}>` : `[${shown}]`, summaryOf(argument))
    return { name, isRepeatable, separator }
  })
  for (const option of command.options ?? []) parser.addOption(parserOption(option))
  parser.optionsGroup(COMMON_HEADING)
  for (const option of COMMON_OPTIONS) parser.addOption(parserOption(option))
  parser.helpOption('-h, --help', 'print help')
  const notes = [...(command.isLocal ? [LOCAL_ONLY] : []), ...(command.notes ?? [])]
  if (notes.length > 0) parser.addHelpText('after', `\n${notes.join('\n')}`)
  parser.action(async () => {
    const { json = false, yes = false, profile, ...options } = parser.opts()
    const args = Object.fromEntries(
      names.flatMap(({ name, isRepeatable, separator }, index) => {
        const given = parser.args.slice(index, isRepeatable ? undefined : index + 1)
        return given.length === 0 ? [] : [[name, given.join(separator)]]
      }),
    )
    await run({ command, args, options, common: { json, yes, profile } })
  })
}

function parserOption(given: Option): ParserOption {
  const { flags, required, parse, default: value, isSecret } = given
  const option = new ParserOption(shownFlags(flags), summaryOf(given)) // a variadic option of Commander would also take arguments
  if (required) option.makeOptionMandatory()
  if (value !== undefined) option.default(value)
  const read = parse ? reading(isSecret ? unlessStdin(parse) : parse) : undefined
  if (!isRepeatable(flags)) return read ? option.argParser(read) : option
  let values: unknown[] = []
  return option.argParser((text) => {
    values = [...values, read ? read(text) : text]
    return values
  })
}

/** Commander adds the name of the option to this error. */
const reading =
  (parse: (text: string) => unknown) =>
  (text: string): unknown => {
    try {
      return parse(text)
    } catch (error) {
      throw error instanceof TenancyError ? new InvalidArgumentError(error.message) : error
    }
  }
