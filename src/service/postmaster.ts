/**
 * The postmaster (PostgreSQL's first process) of one directory, seen from outside: what its pid file says, whether a
 * process really is it, and how it is ended.
 *
 * A pid file outlives kill -9, and its number may belong to someone else by now. So nothing is believed or signalled
 * without the process's own command line, which names the directory; /proc shows it for every user's processes, while
 * the working directory of another user's process is hidden even from root in a common container.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DependencyUnavailable } from '../kernel/base/errors.ts'

const POLL_MS = 10

/** Fast shutdown rolls back and writes a checkpoint; immediate just ends, so the next start recovers; then the kernel. */
const ENDINGS = [
  { signal: 'SIGINT', timeoutMs: 8_000 },
  { signal: 'SIGQUIT', timeoutMs: 6_000 },
  { signal: 'SIGKILL', timeoutMs: 2_000 },
] as const

interface PidFile {
  readonly pid: number
  readonly port: number
  /** `starting` (crash recovery too), `ready`, `stopping`; empty in the first moments. */
  readonly status: string
}

const pidFilePath = (directory: string): string => join(directory, 'postmaster.pid')

/** Undefined when there is none; NaN as the pid when the file was caught, or left, half written. */
export function readPidFile(directory: string): PidFile | undefined {
  let lines: string[]
  try {
    lines = readFileSync(pidFilePath(directory), 'utf8').split('\n')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const [pid, , , port, , , , status = ''] = lines
  return { pid: Number.parseInt(pid ?? '', 10), port: Number(port), status: status.trim() }
}

export function removePidFile(directory: string): void {
  rmSync(pidFilePath(directory), { force: true })
}

/** The arguments by which `isPostmasterOf` knows it again. */
export const postmasterArguments = (directory: string, port: number): string[] => ['-D', directory, '-p', String(port)]

export function isPostmasterOf(directory: string, pid: number): boolean {
  return commandOf(pid).includes(`postgres -D ${directory} -p `)
}

/** Whether any process has this number, one that has ended but is not reaped too. */
export function isTaken(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** A process's program and arguments, joined by spaces; empty when it has ended, reaped or not. */
export function commandOf(pid: number): string {
  try {
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').trimEnd()
    return execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8', stdio: 'pipe' }).trimEnd()
  } catch {
    return ''
  }
}

/** Returns when the process is gone. */
export async function stopPostmaster(directory: string, pid: number, log: (line: string) => void): Promise<void> {
  for (const { signal, timeoutMs } of ENDINGS) {
    if (signal !== 'SIGINT') log(`PostgreSQL (process ${pid}) is still there: sending ${signal}`)
    const until = Date.now() + timeoutMs
    if (isPostmasterOf(directory, pid)) send(pid, signal)
    while (isPostmasterOf(directory, pid) && Date.now() < until) await sleep(POLL_MS)
    if (!isPostmasterOf(directory, pid)) return
  }
  throw DependencyUnavailable(`PostgreSQL (process ${pid}) in ${directory} cannot be stopped`)
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
