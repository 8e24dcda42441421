/** The shape of a command of the terminal: name, arguments, options, and a function of the service. `cli/` makes the program from it. */
import type { Readable } from 'node:stream'
import type { SameSettings } from '../processes/processes.ts'

/** A separator that no argument contains. */
export const ARGUMENT_END = '\0'

export interface Argument {
  readonly name: string
  readonly summary: string
  readonly required?: boolean
  /** Only the last argument: it can be repeated, and its value is all of them, separated by blanks or by `separator`. */
  readonly isRepeatable?: boolean
  readonly separator?: string
  /** As for an option. */
  readonly isSecret?: boolean
}

export interface Option {
  /** `--note <text>`, `--label <text...>` if it can be repeated, or `--dry-run` for a switch. */
  readonly flags: string
  readonly summary: string
  readonly required?: boolean
  /** Converts the text to a value, or throws a TenancyError. */
  readonly parse?: (text: string) => unknown
  readonly default?: unknown
  /** The value `-` means standard input, or a prompt at a terminal: other users of the machine can see arguments. */
  readonly isSecret?: boolean
}

export type Input = Readable & { readonly isTTY?: boolean }

/** Output of a command: results go to standard output, everything else to standard error. */
export interface Terminal {
  /** Standard input. */
  readonly input: Input
  /** Whether the result must be JSON; other formats are rejected. */
  readonly isJson: boolean
  /** Prints rows as a table, or with `--json` the value. Without rows it prints `words`, by default `none`. */
  table(rows: readonly Readonly<Record<string, unknown>>[], value?: unknown, words?: string): void
  /**
   * Prints values as they arrive: with `--json` their list, otherwise one table, whose rows it prints up to 1,000 at a time. After a
   * failure of `values`, the values before it are printed.
   */
  list<Value>(values: AsyncIterable<Value>, rowOf: (value: Value) => Readonly<Record<string, unknown>>): Promise<void>
  /**
   * Prints the next rows of one long table, with headings above the first ones, or with `--json` each value on a line. Resolves when the
   * stream accepts more.
   */
  page(rows: readonly Readonly<Record<string, unknown>>[], values: readonly unknown[]): Promise<void>
  /** Prints one result as lines of `name  value`, or with `--json` the value. */
  record(value: Readonly<Record<string, unknown>>): void
  /** Writes a part of a result that has another format (an export), unchanged. Resolves when the stream accepts more. */
  write(chunk: string): Promise<void>
  /** Prints one of many successive results as a line of text, or with `--json` the value on a line. */
  item(text: string, value: unknown): Promise<void>
  /** Prints a message that is not part of the result. */
  say(text: string): void
  /** Updates a progress line during a long run. */
  progress(text: string): void
  /** Runs an interactive prompt with these names; resolves when the user leaves it. */
  prompt(label: string, names: Readonly<Record<string, unknown>>): Promise<void>
  /** Whether confirmations were given in advance, with `--yes`. */
  readonly isConfirmed: boolean
  /** Asks for a confirmation: true with `--yes`; throws without a terminal. */
  confirm(question: string): Promise<boolean>
}

export interface CommandInput {
  readonly args: Readonly<Record<string, string>>
  readonly options: Readonly<Record<string, any>>
  readonly terminal: Terminal
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal
}

export interface Command<Service = any> {
  /** With the specification's colons: `tenant:create`. */
  readonly name: string
  readonly summary: string
  readonly arguments?: readonly Argument[]
  readonly options?: readonly Option[]
  /** Whether jobs must run while it waits for one. */
  readonly needsWorker?: boolean
  /**
   * Whether it changes the storage of tenants, as for an operation. `but new migrations`: it may have migrations that running processes
   * do not have yet.
   */
  readonly changesStorage?: SameSettings
  readonly run: (service: Service, input: CommandInput) => Promise<void>
}

/** A command that no operation declares. */
export const command = <Service>(definition: Command<Service>): Command<Service> => definition
