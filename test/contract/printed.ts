/** Runs a command with the program's terminal on an open tenancy, and returns its output. */
import { Readable, Writable } from 'node:stream'
import { runProgram } from '../../src/cli/parser/parser.ts'
import { createTerminal } from '../../src/cli/terminal/terminal.ts'
import type { Command, CommandInput } from '../../src/kernel/api/commands.ts'
import { FindingsStand } from '../../src/kernel/doctor/doctor.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'

export interface PrintedOptions {
  /** Called after the first output, from which an endless command is ready. */
  readonly spoken?: (() => void) | undefined
  /** Whether to interrupt the command after its first output. */
  readonly isEndless?: boolean | undefined
  /** Whether to use `--json`; the default. */
  readonly isJson?: boolean | undefined
  /** Runs the command in place of its function. */
  readonly run?: RunCommand | undefined
}

export type RunCommand = (command: Command, input: CommandInput) => Promise<void>

/** Returns standard output. Questions are confirmed. */
export async function printedBy(
  { commands }: Tenancy,
  line: readonly string[],
  { spoken = () => undefined, isEndless = false, isJson = true, run }: PrintedOptions,
): Promise<string> {
  const interruption = new AbortController()
  let text = ''
  const stdout = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      if (isEndless) interruption.abort()
      done()
    },
  })
  const stderr = new Writable({
    write(_chunk, _encoding, done) {
      spoken()
      done()
    },
  })
  const group = { heading: 'Commands:', commands: commands.map(({ what }) => what) }
  await runProgram(
    [group],
    [...line, ...(isJson ? ['--json'] : []), '--yes'],
    async ({ command, args, options, common }) => {
      const { signal } = interruption
      const context = { env: {}, stdin: Readable.from([]), stdout, stderr, on: () => undefined }
      const terminal = createTerminal({ ...common, signal, context })
      const service = commands.find(({ what }) => what === command)?.service
      const input = { args, options, terminal, signal }
      await (run ? run(command, input) : command.run(service, input)).catch(unlessFindings)
      terminal.close()
    },
  )
  return text
}

/** A check prints its findings before it fails. */
function unlessFindings(error: unknown): void {
  if (!FindingsStand.matches(error)) throw error
}

/** Parses one value, or one per line. */
export function jsonOf(text: string): unknown[] {
  try {
    return [JSON.parse(text)]
  } catch {
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  }
}
