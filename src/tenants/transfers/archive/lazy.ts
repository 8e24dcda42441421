/**
 * Archives that start on first use. Most commands need no archives, and an unavailable backup storage must not prevent
 * a start. A failed start is repeated by the next use.
 */
import { TenancyError } from '../../../kernel/base/errors.ts'
import { ArchivesUnusable } from '../requests/errors.ts'
import type { Archives } from './port.ts'

export function onDemand(archives: Archives): Archives {
  let starting: Promise<void> | undefined
  const start = () => {
    starting ??= archives.start().catch((error) => {
      starting = undefined
      throw unusable(error)
    })
    return starting
  }
  return {
    name: archives.name,
    start,
    async check() {
      await start()
      await archives.check().catch((error) => {
        throw unusable(error)
      })
    },
    async write(key, chunks, options) {
      await start()
      await archives.write(key, chunks, options)
    },
    async *read(key) {
      await start()
      yield* archives.read(key)
    },
    async delete(key) {
      await start()
      await archives.delete(key)
    },
    async *list() {
      await start()
      yield* archives.list()
    },
    async count(tenantId) {
      await start()
      return archives.count(tenantId)
    },
    async erase(tenantId) {
      await start()
      await archives.erase(tenantId)
    },
    async stop() {
      await starting?.catch(() => undefined) // the caller of the start has received the error
      if (starting) await archives.stop()
    },
  }
}

const unusable = (error: unknown): TenancyError =>
  error instanceof TenancyError
    ? error
    : ArchivesUnusable('The backup storage cannot be used as configured. See the log for the cause.', {
        cause: error,
      })
