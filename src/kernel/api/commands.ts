/**
 * A command is one thing the terminal can do, as plain data: its name, arguments and options, and a function of the service.
 * `cli/` turns them into a program with help, `--json`, exit codes and questions before anything is destroyed.
 */
import type { Readable } from 'node:stream'

export interface Argument {
  readonly name: string
  readonly summary: string
  readonly required?: boolean
  /** The last one of a command may be given several times; its value is all of them, with blanks between. */
  readonly isRepeatable?: boolean
}

export interface Option {
  /** `--note <text>`, or `--dry-run` for a switch. */
  readonly flags: string
  readonly summary: string
  readonly required?: boolean
  /** Turns the text into a value; throws a TenancyError when it is not one. */
  readonly parse?: (text: string) => unknown
  readonly default?: unknown
}

export type Input = Readable & { readonly isTTY?: boolean }

/** What a command is given to speak with: data goes to standard output, everything else to standard error. */
export interface Terminal {
  /** Standard input. */
  readonly input: Input
  /** Whether the result is to be JSON: what would be in a format of its own is refused. */
  readonly isJson: boolean
  /** Result rows: a table, or with `--json` the value itself. Of no rows it says `words`, by default `none`. */
  table(rows: readonly Readonly<Record<string, unknown>>[], value?: unknown, words?: string): void
  /** One result, as lines of `name  value`, or with `--json` the value itself. */
  record(value: Readonly<Record<string, unknown>>): void
  /** A piece of a result that has a format of its own (an export), as it is. Resolves when there is room for the next. */
  write(chunk: string): Promise<void>
  /** One of many results that come one after the other: a line of text, or with `--json` the value itself, on a line. */
  item(text: string, value: unknown): Promise<void>
  /** Plain words, never part of the result. */
  say(text: string): void
  /** A line that is kept up to date while something long runs. */
  progress(text: string): void
  /** An interactive prompt with these names; resolves when whoever types has left. */
  prompt(label: string, names: Readonly<Record<string, unknown>>): Promise<void>
  /** Asks before something is destroyed: true with `--yes`; without a terminal to ask on, it throws. */
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
  /** Whether jobs must be worked on while it runs (it waits for one). */
  readonly needsWorker?: boolean
  readonly run: (service: Service, input: CommandInput) => Promise<void>
}

export const command = <Service>(definition: Command<Service>): Command<Service> => definition
