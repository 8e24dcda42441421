/** Writes log lines to a file descriptor. Lines that cannot be written are dropped and counted, and the process continues. */
import { writeSync } from 'node:fs'

const BUSY_PAUSE_MS = 5
/** A reader that does not read for this long makes the destination drop lines instead of blocking the process. */
const MAX_BUSY_MS = 1_000
const WARN = 40

export interface LogDestination {
  write(line: string): void
}

/**
 * The next line that can be written follows a report:
 * `{"level":40,"time":"…","dropped":12,"reason":"ENOSPC","msg":"log lines were dropped"}`.
 *
 * @param format of every line, also of the report; default: JSON
 */
export function logDestination(fd: number, format: (line: string) => string = (line) => line): LogDestination {
  let dropped = 0
  let reason: string | undefined
  /** Whether the last written text is an incomplete line. */
  let isTorn = false

  /** Throws if the text was not written completely. */
  const writeAll = (text: string): void => {
    let bytes = Buffer.from(text)
    let busyMs = 0
    while (bytes.length > 0) {
      try {
        const written = writeSync(fd, bytes)
        isTorn = written < bytes.length
        bytes = bytes.subarray(written)
      } catch (error) {
        const isBusy = (error as NodeJS.ErrnoException).code === 'EAGAIN' && dropped === 0
        if (!isBusy || busyMs >= MAX_BUSY_MS) throw error
        pause(BUSY_PAUSE_MS)
        busyMs += BUSY_PAUSE_MS
      }
    }
  }

  return {
    write(line) {
      try {
        if (dropped > 0) {
          const report = { level: WARN, time: new Date().toISOString(), dropped, reason, msg: 'log lines were dropped' }
          writeAll(`${isTorn ? '\n' : ''}${format(`${JSON.stringify(report)}\n`)}`)
          dropped = 0
        }
        writeAll(format(line))
      } catch (error) {
        dropped += 1
        reason = (error as NodeJS.ErrnoException).code ?? String(error)
      }
    },
  }
}

const pause = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
