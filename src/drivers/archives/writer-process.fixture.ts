/** Writes an archive in a separate process, for tests that kill the process. */

import { serveParent } from '../../../test/support/child.ts'
import { blockedUntil, content, MB, writing } from '../../testing/archives/subject.ts'
import { directory } from './directory.ts'
import { s3 } from './s3.ts'

const drivers = { directory, s3 }

await serveParent(async ({ driver, options, key }: { driver: 'directory' | 's3'; options: any; key: string }) => {
  const archives = drivers[driver](options)
  await archives.start()
  const given = Promise.withResolvers<void>()
  const endless = async function* () {
    yield* content(20 * MB)
    given.resolve()
    yield* blockedUntil(MB, new Promise<void>(() => undefined))
  }
  void writing(archives, key, endless())
  return () => given.promise
})
