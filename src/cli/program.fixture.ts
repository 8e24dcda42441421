/** Runs the program as child processes, without the environment of the machine except PATH and HOME. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Ended, reading, type Says } from './output.fixture.ts'

export type { Ended } from './output.fixture.ts'

export const PROGRAM = fileURLToPath(import.meta.resolve('./main.ts'))
const ROOT = join(import.meta.dirname, '../..')

export interface Child {
  readonly process: ChildProcessWithoutNullStreams
  readonly ended: Promise<Ended>
  readonly says: Says
}

export interface StartOptions {
  readonly env?: NodeJS.ProcessEnv
  readonly stdin?: string
  readonly cwd?: string
  /** Command that starts the program. Default: Node. */
  readonly through?: readonly [string, ...string[]]
}

export interface Program {
  start(argv: readonly string[], options?: StartOptions): Child
  /** Runs a command until it ends. */
  run(...argv: string[]): Promise<Ended>
  /** Kills all running processes. */
  killAll(): Promise<void>
}

/** @param env the whole environment, except PATH and HOME. */
export function programWith(env: NodeJS.ProcessEnv): Program {
  const running = new Set<Child>()
  const start: Program['start'] = (argv, { env: more = {}, stdin, cwd = ROOT, through } = {}) => {
    const { PATH, HOME } = process.env
    const [command, ...args] = through ?? [process.execPath, PROGRAM, ...argv]
    const child = observed(spawn(command, args, { cwd, env: { PATH, HOME, ...env, ...more } }))
    if (stdin !== undefined) child.process.stdin.end(stdin)
    running.add(child)
    child.ended.finally(() => running.delete(child))
    return child
  }
  return {
    start,
    run: (...argv) => start(argv, { stdin: '' }).ended,
    async killAll() {
      const all = [...running]
      for (const { process } of all) process.kill('SIGKILL')
      await Promise.all(all.map(({ ended }) => ended))
    },
  }
}

function observed(process: ChildProcessWithoutNullStreams): Child {
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  process.stdin.on('error', () => undefined) // the child may end before it has read its input
  const ended = once(process, 'close').then(([code, signal]): Ended => ({ code: code ?? signal, ...output }))
  return { process, ended, says: reading(output, ended) }
}
