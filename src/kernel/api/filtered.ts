/**
 * Lets a command on one object of a list run for all objects that match a query of the list.
 *
 *   --filter status=failed ─► ids of all pages ─► question with their number ─► the command for each, several concurrently ─► table
 *
 * - An object may change after the question. So the list is read again, a few objects ahead of the command, which runs only for objects that
 *   still match.
 */
import { z } from 'zod'
import { mapConcurrent } from '../base/concurrency.ts'
import { invalid } from '../base/errors.ts'
import { number } from '../base/format.ts'
import { meter, paceText } from '../base/progress-rate.ts'
import { parsed } from '../base/validate.ts'
import { allPages, type ReadPage } from './all-pages.ts'
import type { Command, CommandInput, Option, Terminal } from './commands.ts'
import { type ItemFailure, itemFailure } from './item-failure.ts'
import type { AnyOperation } from './operation.ts'
import { count } from './option-values.ts'
import { MAX_LIMIT } from './page.ts'

/** The maximum of individually named objects in the list before the question. */
const MAX_NAMED = 20
const CONCURRENCY = 4

interface Filtering {
  /** Name of the command. */
  readonly name: string
  /** `GET` of a list whose items have an `id`. */
  readonly list: AnyOperation
  readonly read: ReadPage
  readonly runOne: (input: CommandInput) => Promise<void>
}

/** The result of one object. */
interface Outcome extends Partial<ItemFailure> {
  readonly id: string
  readonly isDone: boolean
  /** What the command prints with `--json` for one object. */
  readonly result?: unknown
}

/** The declaration of a command with `--filter`: its only required argument, the id of an object of the list, becomes optional. */
export function withFilter<One extends Pick<Command, 'name' | 'arguments' | 'options'>>(
  command: One,
  list: AnyOperation,
): One {
  const { name, arguments: args = [], options = [] } = command
  if (args.length !== 1 || args[0]?.name !== 'id') throw new Error(`"${name}" with a filter must have one argument, id`)
  const names = Object.keys(filterOf(list).shape).join(', ')
  const own: Option[] = [
    { flags: '--filter <query>', summary: `instead of one, all that match this query (a=b&c=d) of ${names}` },
    { flags: '--concurrency <count>', summary: 'with --filter: number at a time', parse: count, default: CONCURRENCY },
  ]
  return { ...command, arguments: args.map((one) => ({ ...one, required: false })), options: [...options, ...own] }
}

/** Runs the command for the object of its argument, or for all that match the filter. Fails with the first failure, after the table. */
export async function runFiltered({ name, list, read, runOne }: Filtering, input: CommandInput): Promise<void> {
  const { args, terminal, signal } = input
  const { filter, concurrency, ...options } = input.options
  if ((args.id === undefined) === (filter === undefined)) {
    throw invalid([{ path: 'id', message: 'Give an id or --filter.' }])
  }
  if (filter === undefined) return runOne({ ...input, options })
  const query = queryOf(list, filter)
  const ids = await Array.fromAsync(matching(list, read, query, { signal }))
  if (ids.length === 0) return terminal.table([], [], 'no match')
  terminal.say(`${number(ids.length)} ${ids.length === 1 ? 'matches' : 'match'}: ${named(ids)}`)
  if (!(await terminal.confirm(`Run ${name} for all of them (${number(ids.length)})?`))) return
  const failures: unknown[] = []
  let finished = 0
  const look = meter()
  const run = async (id: string): Promise<Outcome> => {
    terminal.progress(`${number(finished)} of ${number(ids.length)}${paceText(look(finished, ids.length))}: ${id}`)
    let result: unknown
    const own = quiet(terminal, (value) => {
      result = value
    })
    try {
      await runOne({ args: { ...args, id }, options, terminal: own, signal })
      return { id, isDone: true, result }
    } catch (error) {
      if (failures.length === 0) failures.push(error)
      return { id, isDone: false, result, ...itemFailure(error) }
    } finally {
      finished++
    }
  }
  const left = new Set(ids)
  const stillMatching = async function* () {
    for await (const id of matching(list, read, query, { signal, limit: Math.min(concurrency, MAX_LIMIT) })) {
      if (left.delete(id)) yield id
    }
  }
  await terminal.list(mapConcurrent(stillMatching(), concurrency, run, signal), ({ result: _, ...row }) => row)
  signal.throwIfAborted()
  if (left.size > 0) terminal.say(`skipped ${number(left.size)} that no longer match: ${named([...left])}`)
  if (failures.length > 0) throw failures[0]
}

/** Members of the list's query, without those of its pages. */
const filterOf = ({ query }: AnyOperation): z.ZodObject => {
  if (!(query instanceof z.ZodObject)) throw new Error('a list with a filter must have a query')
  return query.omit({ limit: true, cursor: true })
}

/** An empty filter could be an empty variable of a script, so it does not match all objects. */
function queryOf(list: AnyOperation, text: string): Record<string, string> {
  const members = [...new URLSearchParams(text)]
  const query = Object.fromEntries(members)
  parsed(filterOf(list), query, 'filter')
  if (members.length === 0) throw invalid([{ path: 'filter', message: 'must not be empty' }])
  if (Object.keys(query).length < members.length) {
    throw invalid([{ path: 'filter', message: 'must not contain a parameter twice' }])
  }
  return query
}

async function* matching(
  list: AnyOperation,
  read: ReadPage,
  query: Record<string, string>,
  { signal, limit }: { readonly signal: AbortSignal; readonly limit?: number },
): AsyncIterable<string> {
  for await (const { data } of allPages(read, query, signal, limit)) {
    for (const { id } of data) {
      if (typeof id !== 'string') throw new Error(`an item of ${list.name} has no id`)
      yield id
    }
  }
}

function named(ids: readonly string[]): string {
  const more = ids.length - MAX_NAMED
  return `${ids.slice(0, MAX_NAMED).join(', ')}${more > 0 ? ` and ${number(more)} more` : ''}`
}

/** Keeps the result instead of printing it. The question for all objects replaces that for one. */
const quiet = (terminal: Terminal, keep: (result: unknown) => void): Terminal => ({
  ...terminal,
  table: (rows, value = rows) => keep(value),
  list: async (values) => keep(await Array.fromAsync(values)),
  record: keep,
  say: () => undefined,
  progress: () => undefined,
  confirm: async () => true,
})
