/** What a run of the program printed, and how it ended. */
import { eventually } from '../testing/base/tenancy.ts'

const WAIT_TIMEOUT_MS = 30_000

export interface Ended {
  /** The exit code, or the signal that ended the process. */
  readonly code: number | NodeJS.Signals
  readonly stdout: string
  readonly stderr: string
}

/** Resolves when standard output or error matches `words`; rejects when the run ends before. */
export type Says = (words: RegExp) => Promise<RegExpMatchArray>

/** @param output grows while the program runs. */
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
      if (!match && !end) throw new Error(`it does not say ${words}: ${output.stdout}${output.stderr}`)
      return match
    }, WAIT_TIMEOUT_MS)
    if (!found) throw new Error(`it ended (${end?.code}) without saying ${words}: ${output.stdout}${output.stderr}`)
    return found
  }
}
