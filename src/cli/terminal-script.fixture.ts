/** Runs programs at a terminal with `script` of util-linux; other systems have a different program of that name. */
import { execFileSync } from 'node:child_process'

export function hasScript(): boolean {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8', stdio: 'pipe' }).includes('util-linux')
  } catch {
    return false
  }
}

/** Runs a shell command, and exits with its code. */
export const throughScript = (command: string) =>
  ['script', '--quiet', '--return', '--command', command, '/dev/null'] as const
