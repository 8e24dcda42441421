/** Tests whether a server can store data. */
import { withoutDeadline } from '../base/deadline.ts'
import type { Database } from './database.ts'
import { WRITE_PROBE, writeFailure } from './write-failures.ts'

/** More than the timeout of a check. A probe on a lost connection must not block the next ones. */
const PROBE_TIMEOUT_MS = 3_000
const running = new WeakMap<Database, Promise<unknown>>()

/**
 * Throws if the server does not respond, is read-only, or has no disk space for a temporary file. Concurrent calls share
 * one probe, because every client can request the probes of the service.
 */
export async function assertWritable(database: Database): Promise<void> {
  const probe =
    running.get(database) ??
    withoutDeadline(() =>
      database.outside(() => database.sql({ text: WRITE_PROBE, timeoutMs: PROBE_TIMEOUT_MS })),
    ).finally(() => {
      running.delete(database)
    })
  running.set(database, probe)
  await probe
}

/** Whether the server can store data. Throws if it is unavailable. */
export async function isWritable(database: Database): Promise<boolean> {
  try {
    await assertWritable(database)
    return true
  } catch (error) {
    if (writeFailure(error) === undefined) throw error
    return false
  }
}
