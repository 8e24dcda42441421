/** Starts a program that serves, and waits until it is ready. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { eventually } from '../../src/testing/base/tenancy.ts'

const READY_WITHIN_MS = 120_000

export interface ServerProgram {
  readonly origin: string
  stop(): Promise<void>
}

export interface ServerOptions {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Output of a ready server; its group is the origin, unless `origin` is given. */
  readonly ready: RegExp
  readonly origin?: string
}

export async function startServer(
  [command = '', ...args]: readonly string[],
  { cwd, env, ready, origin }: ServerOptions,
): Promise<ServerProgram> {
  const { PATH, HOME } = process.env
  const child = spawn(command, args, { cwd, env: { PATH, HOME, ...env }, detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      output += text
    })
  }
  const ended = once(child, 'close')
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-(child.pid as number), 'SIGKILL')
    await ended
  }
  try {
    const [, found] = await eventually(() => {
      if (child.exitCode !== null) throw new Error(output)
      return ready.exec(output) ?? Promise.reject(new Error(output))
    }, READY_WITHIN_MS)
    return { origin: origin ?? `${found}`, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
