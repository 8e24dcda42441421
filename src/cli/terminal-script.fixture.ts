/** Programs at a terminal, by the script of util-linux; elsewhere it is another program of that name. */
import { execFileSync } from 'node:child_process'

export function hasScript(): boolean {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8', stdio: 'pipe' }).includes('util-linux')
  } catch {
    return false
  }
}

/** Runs a command of the shell, and ends with its exit code. */
export const throughScript = (command: string) =>
  ['script', '--quiet', '--return', '--command', command, '/dev/null'] as const
