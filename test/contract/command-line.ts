/**
 * Runs a command line on an open tenancy and records its output. Questions are confirmed; an endless command is
 * interrupted after its first output.
 */
import { Readable } from 'node:stream'
import { runProgram } from '../../src/cli/parser/parser.ts'
import type { Terminal } from '../../src/kernel/api/commands.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'

interface RunOptions {
  readonly isEndless?: boolean | undefined
  /** Receives progress messages. */
  readonly progress?: (text: string) => void
}

/** Returns the printed result of the command. */
export async function runCommand(
  { commands }: Tenancy,
  line: readonly string[],
  { isEndless = false, progress = () => undefined }: RunOptions = {},
): Promise<unknown[]> {
  const printed: unknown[] = []
  const interruption = new AbortController()
  const terminal: Terminal = {
    input: Readable.from([]),
    isJson: false,
    isConfirmed: true,
    table: (rows, value = rows) => void printed.push(value),
    list: async (values) => void printed.push(await Array.fromAsync(values)),
    page: async (_, values) => void printed.push(...values),
    record: (value) => void printed.push(value),
    write: async (chunk) => {
      printed.push(chunk)
      if (isEndless) interruption.abort()
    },
    item: async (text) => {
      printed.push(text)
      if (isEndless) interruption.abort()
    },
    say: (words) => {
      if (!isEndless) return
      printed.push(words)
      interruption.abort()
    },
    progress,
    confirm: async () => true,
    prompt: async (name, context) => void printed.push([name, Object.keys(context)]),
  }
  const group = { heading: 'Commands:', commands: commands.map(({ what }) => what) }
  await runProgram([group], line, async ({ command, args, options }) => {
    const service = commands.find(({ what }) => what === command)?.service
    await command.run(service, { args, options, terminal, signal: interruption.signal })
  })
  return printed
}
