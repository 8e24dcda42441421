/** Prints the reference page of all commands from their declarations. */
import { Environment } from '../service/settings.ts'
import type { OwnCommand } from './commands.ts'
import { EXIT_CODES } from './exit-codes.ts'
import { COMMON_OPTIONS, type CommandGroup, type Described } from './parser/parser.ts'

/** In addition to those of the configuration, for a terminal. */
const TERMINAL_VARIABLES: Readonly<Record<string, string>> = {
  NO_COLOR: 'Not empty: no colours, https://no-color.org',
  TERM: '`dumb`: no colours',
}

/** Of the service alone; no command listens. */
const OF_THE_SERVICE = ['PORT', 'HOST', 'TENANTRY_ROLE']

const INTRODUCTION = `\`tenantry <command>\`; in the repository \`npm run -s tenantry -- <command>\`. \`tenantry help <command>\` says what is here of one.

The result is on standard output, everything else on standard error. With \`--json\` the result is one JSON value, or one a line where
results come one after the other, and an error is a problem (RFC 9457) on standard error; only \`tenant:repl\` prints what its script does.
What destroys something, or closes a tenant for as long as it runs, asks first; without a terminal to ask on it is refused
unless \`--yes\` is given. Long work says at a terminal how far it is and how fast it goes, and, where it is known how much there is to do, about how
long it will take; elsewhere it says nothing.`

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
    'The configuration is found as the service finds it; [settings.md](settings.md) has all of it.',
    table(
      ['variable', ''],
      variables.map(([name, meaning]) => [code(name), meaning]),
    ),
  ].join('\n\n')
}

function section({ name, summary, arguments: args = [], options = [], notes = [] }: Described): string {
  const usage = args.map(({ name, required, isRepeatable }) => {
    const shown = isRepeatable ? `${name}...` : name
    return required ? `<${shown}>` : `[${shown}]`
  })
  const rows = [...args.map((one) => [code(one.name), one.summary]), ...options.map(optionRow)]
  const parts = [`### ${name}`, `${summary}.`, `    tenantry ${[name, ...usage].join(' ')}`]
  const rest = notes.map((line) => `    ${line}`).join('\n')
  return [...parts, ...(rows.length > 0 ? [table(['', ''], rows)] : []), ...(rest ? [rest] : [])].join('\n\n')
}

function optionRow({ flags, summary, required, default: value }: NonNullable<Described['options']>[number]): string[] {
  const note = required ? '; has to be given' : value === undefined ? '' : `; default ${code(String(value))}`
  return [code(flags), `${summary}${note}`]
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(cell).join(' | ')} |`).join('\n')

const cell = (text: string): string => text.replaceAll('|', '\\|')

const code = (text: string): string => `\`${text}\``
