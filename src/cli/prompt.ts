/**
 * An interactive prompt: Node's own, with names to work with. Without a terminal, standard input is a script in which the names
 * are known and `await` is allowed; it prints with `console.log`, and what it throws fails the command.
 */
import { once } from 'node:events'
import { start } from 'node:repl'
import { text } from 'node:stream/consumers'
import { usesColor } from './color.ts'

type Names = Readonly<Record<string, unknown>>

/** Resolves when whoever types has left (Ctrl-D, `.exit`), the script is done, or `signal` aborts. */
export async function runPrompt(label: string, names: Names, signal: AbortSignal): Promise<void> {
  if (process.stdin.isTTY) await converse(label, names, signal)
  else await runScript(await text(process.stdin), names)
}

async function converse(label: string, names: Names, signal: AbortSignal): Promise<void> {
  const server = start({ prompt: `${label}> `, useColors: usesColor(process.stdout), ignoreUndefined: true })
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
