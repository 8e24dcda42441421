/** Waits for output of a running program. */
import { eventually } from '../testing/base/tenancy.ts'

const WAIT_TIMEOUT_MS = 30_000

export interface Ended {
  /** The exit code, or the signal that ended the process. */
  readonly code: number | NodeJS.Signals
  readonly stdout: string
  readonly stderr: string
}

/** Resolves when standard output or error matches `words`. Rejects if the run ends first. */
export type Says = (words: RegExp) => Promise<RegExpMatchArray>

/** @param output is appended to while the program runs. */
export function reading(output: Pick<Ended, 'stdout' | 'stderr'>, ended: Promise<Ended>): Says {
  let end: Ended | undefined
  ended.then(
    (value) => {
      end = value
    },
    () => undefined,
  )
  return async (words) => {
    const found = await eventually(() => {
      const match = (output.stdout + output.stderr).match(words)
      if (!match && !end) throw new Error(`The output does not match ${words}: ${output.stdout}${output.stderr}`)
      return match
    }, WAIT_TIMEOUT_MS)
    if (!found)
      throw new Error(
        `The run ended (${end?.code}) without output that matches ${words}: ${output.stdout}${output.stderr}`,
      )
    return found
  }
}
