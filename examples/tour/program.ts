/** The program `tenantry` as a child process. It is in a process group of its own: Ctrl-C comes to the tour, which ends it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

const PROGRAM = join(import.meta.dirname, '../../src/cli/main.ts')
const STOP_TIMEOUT_MS = 20_000

/** An exit code, or the signal that ended it. */
export type ProgramExit = number | string

export interface Program {
  readonly output: Promise<string>
  readonly complaints: Promise<string>
  readonly ended: Promise<ProgramExit>
  isRunning(): boolean
  /** Asks it to end, and kills it when it takes too long. */
  end(): Promise<ProgramExit>
}

export function run(words: readonly string[], environment: Readonly<Record<string, string>>): Program {
  const child = spawn(process.execPath, [PROGRAM, ...words], {
    env: { ...inherited(), ...environment },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as ProgramExit)
  return {
    output: text(child.stdout),
    complaints: text(child.stderr),
    ended,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    async end() {
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      return ended.finally(() => clearTimeout(timer))
    },
  }
}

/** The tour's own environment without what would lead to another installation. */
function inherited(): NodeJS.ProcessEnv {
  const foreign = /^(TENANTRY_|STRIPE_|(DATABASE_URL|REDIS_URL|HOST|PORT|NODE_ENV)$)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)))
}
