/**
 * Inspects and stops the postmaster (PostgreSQL's first process) of one directory by its pid file.
 *
 * A pid file survives kill -9, and another process may have its number. So the command line, which names the directory, must confirm
 * it. /proc shows the command line of every user's process; the working directory can be hidden even from root in a container.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DependencyUnavailable } from '../kernel/base/errors.ts'

const POLL_MS = 10

/** Fast shutdown writes a checkpoint; immediate shutdown requires recovery at the next start; then SIGKILL. */
const ENDINGS = [
  { signal: 'SIGINT', timeoutMs: 8_000 },
  { signal: 'SIGQUIT', timeoutMs: 6_000 },
  { signal: 'SIGKILL', timeoutMs: 2_000 },
] as const

interface PidFile {
  readonly pid: number
  readonly port: number
  /** `starting` (also recovery), `ready`, `stopping`; empty in the first moments. */
  readonly status: string
}

const pidFilePath = (directory: string): string => join(directory, 'postmaster.pid')

/** Undefined without a file. The pid is NaN if the file is half written. */
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

/** Arguments by which `isPostmasterOf` recognizes the server. */
export const postmasterArguments = (directory: string, port: number): string[] => ['-D', directory, '-p', String(port)]

export function isPostmasterOf(directory: string, pid: number): boolean {
  return commandOf(pid).includes(`postgres -D ${directory} -p `)
}

/** The same, also while the list of processes cannot be read. */
export function isRunningPostmaster(directory: string, pid: number): boolean {
  try {
    return isPostmasterOf(directory, pid)
  } catch {
    return isTaken(pid)
  }
}

/** Whether a process has this number, including one that has ended and was not reaped. */
export function isTaken(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Program and arguments of a process, separated by spaces; empty if it has ended. */
export function commandOf(pid: number): string {
  try {
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').trimEnd()
    return execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8', stdio: 'pipe' }).trimEnd()
  } catch (error) {
    const { code, status } = error as NodeJS.ErrnoException & { status?: number }
    if (code === 'ENOENT' || code === 'ESRCH' || status === 1) return ''
    throw error
  }
}

/** Resolves when the process has ended. */
export async function stopPostmaster(directory: string, pid: number, log: (line: string) => void): Promise<void> {
  for (const { signal, timeoutMs } of ENDINGS) {
    if (signal !== 'SIGINT') log(`PostgreSQL (process ${pid}) is still running: sending ${signal}`)
    const until = Date.now() + timeoutMs
    if (isPostmasterOf(directory, pid)) signalProcess(pid, signal)
    while (isPostmasterOf(directory, pid) && Date.now() < until) await sleep(POLL_MS)
    if (!isPostmasterOf(directory, pid)) return
  }
  throw DependencyUnavailable(`Cannot stop PostgreSQL (process ${pid}) in ${directory}`)
}

/** Connections that a starting or stopping server rejects: a process whose server restarts tries to connect until it is ready. */
const REJECTION =
  /FATAL: {2}the database system is |DETAIL: {2}(Consistent recovery|Recovery snapshot|Hot standby mode)/

/** Output of a server without rejected connections, which would hide the cause of its end. */
export const withoutRejections = (output: string): string =>
  output
    .split('\n')
    .filter((line) => !REJECTION.test(line))
    .join('\n')

/** Ignores a process that has ended. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
