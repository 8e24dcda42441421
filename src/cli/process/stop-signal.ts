/**
 * Ends a command early on Ctrl-C, SIGTERM, a closed terminal, or a closed pipe (`| head`).
 * - The first signal aborts the command's `AbortSignal`; the second ends the process.
 * - npm repeats the Ctrl-C of the terminal, so a second signal within a second is ignored.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const SAME_MS = 1_000
const INTERRUPTED = 130

/** A signal ended the command. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** The reader of standard output has closed it. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed'
}

/** Returns the stop signal of this process. Call it once. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController()
  let first = 0
  const interrupt = () => {
    const now = performance.now()
    if (!stop.signal.aborted) {
      first = now
      stop.abort(new Interrupted('interrupted'))
    } else if (now - first > SAME_MS) {
      process.exit(INTERRUPTED)
    }
  }
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, interrupt)
  process.stdout.on('error', (error: NodeJS.ErrnoException) =>
    stop.abort(error.code === 'EPIPE' ? new OutputClosed() : error),
  )
  process.stderr.on('error', () => undefined) // no stream is left to report it
  return stop.signal
}

/** Rejects with the signal's reason. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = () => reject(signal.reason)
    if (signal.aborted) fail()
    else signal.addEventListener('abort', fail, { once: true })
  })
}

/**
 * Returns the result of `work`. If `signal` aborts, waits at most `graceMs` for the end of `work`, and rejects with the
 * signal's reason.
 */
export async function interruptible<T>(work: Promise<T>, signal: AbortSignal, graceMs: number): Promise<T> {
  const tooLate = aborted(signal).catch((reason) =>
    sleep(graceMs, undefined, { ref: false }).then(() => Promise.reject(reason)),
  )
  try {
    return await Promise.race([work, tooLate])
  } finally {
    signal.throwIfAborted()
  }
}
