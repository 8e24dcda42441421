/**
 * Runs `tenantry` as a child process, in a separate process group: only the tour receives Ctrl-C, and stops the child.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

const PROGRAM = join(import.meta.dirname, '../../src/cli/main.ts')
const STOP_TIMEOUT_MS = 20_000

/** Exit code, or the signal that ended the program. */
export type ProgramExit = number | string

export interface Program {
  readonly output: Promise<string>
  readonly complaints: Promise<string>
  readonly ended: Promise<ProgramExit>
  isRunning(): boolean
  /** Sends SIGTERM, and SIGKILL after a timeout. */
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

/** Environment of the tour without variables that select another installation. */
function inherited(): NodeJS.ProcessEnv {
  const foreign = /^(TENANTRY_|STRIPE_|(DATABASE_URL|REDIS_URL|HOST|PORT|NODE_ENV)$)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)))
}
