/**
 * Writes log lines to a file descriptor. Lines that cannot be written are dropped and counted, and the process continues. A full pipe
 * blocks the process for a second in total, and after that for at most one percent of the time.
 */
import { writeSync } from 'node:fs'

const BUSY_PAUSE_MS = 5
const MAX_BUSY_MS = 1_000
const BUSY_SHARE = 0.01
const WARN = 40

export interface LogDestination {
  write(line: string): void
}

let total = 0

/** Lines that this process has dropped, of all destinations. */
export const droppedLines = (): number => total

/**
 * A report precedes the next line that can be written, or is written at the end of the process:
 * `{"level":40,"time":"…","dropped":12,"reason":"ENOSPC","msg":"log lines were dropped"}`.
 *
 * @param format of every line, also of the report; default: JSON
 */
export function logDestination(fd: number, format: (line: string) => string = (line) => line): LogDestination {
  let dropped = 0
  let reason: string | undefined
  /** Whether the last written text is an incomplete line. */
  let isTorn = false
  /** Time for which a full pipe may still block the process. */
  let busyMs = MAX_BUSY_MS
  let measuredAt = performance.now()

  /** Throws if the text was not written completely. */
  const writeAll = (text: string, canWait: boolean): void => {
    let bytes = Buffer.from(text)
    while (bytes.length > 0) {
      try {
        const written = writeSync(fd, bytes)
        isTorn = written < bytes.length
        bytes = bytes.subarray(written)
      } catch (error) {
        const isBusy = (error as NodeJS.ErrnoException).code === 'EAGAIN' && canWait
        if (!isBusy || !pause()) throw error
      }
    }
  }

  /** Returns false if the time for pauses is used. */
  const pause = (): boolean => {
    const now = performance.now()
    busyMs = Math.min(MAX_BUSY_MS, busyMs + (now - measuredAt) * BUSY_SHARE)
    measuredAt = now
    if (busyMs < BUSY_PAUSE_MS) return false
    busyMs -= BUSY_PAUSE_MS
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_PAUSE_MS)
    return true
  }

  const report = (canWait = false): void => {
    const line = { level: WARN, time: new Date().toISOString(), dropped, reason, msg: 'log lines were dropped' }
    writeAll(`${isTorn ? '\n' : ''}${format(`${JSON.stringify(line)}\n`)}`, canWait)
    dropped = 0
    process.off('exit', reportAtExit)
  }
  const reportAtExit = (): void => {
    busyMs = MAX_BUSY_MS
    try {
      report(true)
    } catch {
      // The last destination of messages cannot be written.
    }
  }

  return {
    write(line) {
      try {
        if (dropped > 0) report()
        writeAll(format(line), true)
      } catch (error) {
        if (dropped === 0) process.once('exit', reportAtExit)
        dropped += 1
        total += 1
        reason = (error as NodeJS.ErrnoException).code ?? String(error)
      }
    },
  }
}
