/** Ends a read from S3 if the storage sends nothing for long. */
import type { Readable } from 'node:stream'
import { storageUnavailable, toStorageError } from './s3-errors.ts'

/** Yields the body. Only the time in which the storage sends nothing counts, not the time that the reader takes. */
export async function* withIdleTimeout(body: Readable, idleMs: number): AsyncGenerator<Buffer, void, undefined> {
  const startIdleTimer = () =>
    setTimeout(() => body.destroy(storageUnavailable(new Error(`no data was received for ${idleMs} ms`))), idleMs)
  let timer = startIdleTimer()
  try {
    for await (const chunk of body) {
      clearTimeout(timer)
      yield chunk
      timer = startIdleTimer()
    }
  } catch (error) {
    throw toStorageError(error)
  } finally {
    clearTimeout(timer)
    body.destroy()
  }
}
