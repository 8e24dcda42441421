/**
 * Opens the prompt of Node.js with names for the parts of a tenancy, or runs standard input as a script without a
 * terminal.
 * - A script can use `await`, and prints with `console.log`. Its error fails the command.
 */
import { Console } from 'node:console'
import { once } from 'node:events'
import { start } from 'node:repl'
import { text } from 'node:stream/consumers'
import type { ProcessContext } from '../process/context.ts'
import { usesColor } from './color.ts'

type Names = Readonly<Record<string, unknown>>

/** Resolves when the user leaves (Ctrl-D, `.exit`), the script ends, or `signal` aborts. */
export async function runPrompt(
  label: string,
  names: Names,
  signal: AbortSignal,
  context: ProcessContext,
): Promise<void> {
  const { stdin, stdout, stderr } = context
  if (stdin.isTTY) await converse(label, names, signal, context)
  else await runScript(await text(stdin), { ...names, console: new Console(stdout, stderr) })
}

async function converse(label: string, names: Names, signal: AbortSignal, context: ProcessContext): Promise<void> {
  const { stdin: input, stdout: output } = context
  const useColors = usesColor(output, context)
  const server = start({ prompt: `${label}> `, input, output, useColors, ignoreUndefined: true })
  for (const [name, value] of Object.entries(names)) {
    Object.defineProperty(server.context, name, { value, enumerable: true, configurable: false, writable: false })
  }
  signal.addEventListener('abort', () => server.close(), { once: true })
  await once(server, 'exit')
}

const AsyncFunction = (async () => undefined).constructor as new (...parts: string[]) => (...args: unknown[]) => unknown

async function runScript(script: string, names: Names): Promise<void> {
  await new AsyncFunction(...Object.keys(names), script)(...Object.values(names))
}
