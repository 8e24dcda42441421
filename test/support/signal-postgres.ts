/** Signals a PostgreSQL server: first the postmaster, so that it starts no process in between, then its processes. */
import { execFileSync } from 'node:child_process'

export function signalPostgres(postmaster: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  process.kill(postmaster, name)
  const all = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  for (const [pid, parent] of all.map((line) => line.trim().split(/\s+/).map(Number))) {
    if (pid !== undefined && parent === postmaster) signalProcess(pid, name)
  }
}

/** Sends the signal to one process of the server, and ignores a process that has ended. */
function signalProcess(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
