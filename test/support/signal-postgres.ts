/** Signals a PostgreSQL server: first the postmaster, so that it starts no process in between, then its processes. */
import { execFileSync } from 'node:child_process'
import { signalProcess } from '../../src/service/postmaster.ts'

export function signalPostgres(postmaster: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  process.kill(postmaster, name)
  const all = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  for (const [pid, parent] of all.map((line) => line.trim().split(/\s+/).map(Number))) {
    if (pid !== undefined && parent === postmaster) signalProcess(pid, name)
  }
}
