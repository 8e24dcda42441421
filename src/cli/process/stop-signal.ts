/**
 * What ends a command before it is done: Ctrl-C, a request to terminate, a terminal that went away, or a reader that has
 * enough (`| head`). The first aborts the command's signal, so that it can close what it has open; the second ends the process.
 *
 * npm passes on the Ctrl-C that the terminal has sent us already, so one that follows within a second is the same one.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const SAME_MS = 1_000
const INTERRUPTED = 130

/** Somebody ended the command. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** Nobody reads standard output any more. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed'
}

/** Of this process; call it once. */
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
  process.stderr.on('error', () => undefined) // there is nowhere left to say so
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
 * As `work`, until `signal` aborts: from then on it has only `graceMs` to end by itself, and however it ends, this rejects with
 * the signal's reason.
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
