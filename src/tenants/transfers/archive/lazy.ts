/**
 * Archives that are started by whoever first needs them: most commands never do, and storage that is away for now must not keep
 * anything else from starting. Tried again after a failure.
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
    async stop() {
      await starting?.catch(() => undefined) // whoever asked has been told
      if (starting) await archives.stop()
    },
  }
}

const unusable = (error: unknown): TenancyError =>
  error instanceof TenancyError
    ? error
    : ArchivesUnusable('The place of the backups cannot be used as it is configured; the log says why.', {
        cause: error,
      })
