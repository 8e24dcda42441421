/** Generates the reference page of all commands from their declarations. */
import { Environment } from '../service/settings/environment.ts'
import type { OwnCommand } from './commands.ts'
import { EXIT_CODES } from './exit-codes.ts'
import { COMMON_OPTIONS, type CommandGroup, type Described, LOCAL_ONLY } from './parser/parser.ts'
import { shownFlags, summaryOf } from './parser/secret-options.ts'

/** Environment variables of the terminal, in addition to those of the configuration. */
const TERMINAL_VARIABLES: Readonly<Record<string, string>> = {
  TENANTRY_URL: 'URL of a remote service on which commands run. Takes precedence over profiles',
  TENANTRY_TOKEN: 'Admin token for `TENANTRY_URL`, or in place of the token of a profile',
  XDG_CONFIG_HOME: 'Directory of `tenantry/profiles`; default `~/.config`',
  NO_COLOR: 'If not empty, disables colors: https://no-color.org',
  TERM: '`dumb` disables colors',
}

/** Environment variables of `serve` and `dev` only; other commands do not listen. */
const OF_THE_SERVICE = ['PORT', 'HOST', 'TENANTRY_ROLE']

const INTRODUCTION = `\`tenantry <command>\`; in a clone \`npm run -s tenantry -- <command>\`. \`tenantry help <command>\` shows one command.

- The result is on standard output, everything else on standard error.
- With \`--json\` the result is one JSON value, or one value on each line for streamed results. An error is a problem (RFC 9457) on standard
  error. \`tenant:repl\` prints the output of its script unchanged.
- Commands that destroy data, or close a tenant while they run, ask for confirmation. Without a terminal they require \`--yes\`.
- At a terminal, long work shows its progress and rate, and the remaining time if the total is known. Pipes and \`--json\` have no progress.`

export function commandsReference(groups: readonly CommandGroup<OwnCommand>[]): string {
  const variables = [
    ...Object.entries(Environment.shape)
      .filter(([name]) => !OF_THE_SERVICE.includes(name))
      .map(([name, { description = '' }]) => [name, description] as const),
    ...Object.entries(TERMINAL_VARIABLES),
  ]
  return [
    INTRODUCTION,
    ...groups.flatMap(({ heading, commands }) => [`## ${heading.replace(/:$/, '')}`, ...commands.map(section)]),
    '## Options of every command',
    table(['option', ''], COMMON_OPTIONS.map(optionRow)),
    '## Exit codes',
    table(['code', ''], Object.entries(EXIT_CODES)),
    '## Environment',
    'Commands and the service read the same configuration: [settings.md](settings.md) lists all settings.',
    table(
      ['variable', ''],
      variables.map(([name, meaning]) => [code(name), meaning]),
    ),
  ].join('\n\n')
}

function section({
  name,
  summary,
  arguments: args = [],
  options = [],
  notes = [],
  isLocal = false,
}: Described): string {
  const usage = args.map(({ name, required, isRepeatable }) => {
    const shown = isRepeatable ? `${name}...` : name
    return required ? `<${shown}>` : `[${shown}]`
  })
  const rows = [...args.map((one) => [code(one.name), summaryOf(one)]), ...options.map(optionRow)]
  const parts = [
    `### ${name}`,
    `${summary}.${isLocal ? ` ${LOCAL_ONLY}` : ''}`,
    `    tenantry ${[name, ...usage].join(' ')}`,
  ]
  const rest = notes.map((line) => `    ${line}`).join('\n')
  return [...parts, ...(rows.length > 0 ? [table(['', ''], rows)] : []), ...(rest ? [rest] : [])].join('\n\n')
}

function optionRow(option: NonNullable<Described['options']>[number]): string[] {
  const { flags, required, default: value } = option
  const note = required ? '; required' : value === undefined ? '' : `; default ${code(String(value))}`
  return [code(shownFlags(flags)), `${summaryOf(option)}${note}`]
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(cell).join(' | ')} |`).join('\n')

const cell = (text: string): string => text.replaceAll('|', '\\|')

const code = (text: string): string => `\`${text}\``
