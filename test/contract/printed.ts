/** What a command prints, by the terminal that the program has, on a tenancy that is open. */
import { Readable, Writable } from 'node:stream'
import { runProgram } from '../../src/cli/parser/parser.ts'
import { createTerminal } from '../../src/cli/terminal/terminal.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'

export interface PrintedOptions {
  /** Called when it has said its first words; a command that never ends is told by them that it may be used. */
  readonly spoken?: (() => void) | undefined
  /** Whether it is interrupted once it has printed something. */
  readonly isEndless?: boolean | undefined
  /** With `--json`; the default. */
  readonly isJson?: boolean | undefined
}

/** Returns what was on standard output. Every question is answered yes. */
export async function printedBy(
  { commands }: Tenancy,
  line: readonly string[],
  { spoken = () => undefined, isEndless = false, isJson = true }: PrintedOptions,
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
      await command.run(service, { args, options, terminal, signal })
      terminal.close()
    },
  )
  return text
}

/** One value, or one on each line. */
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
