/** A racer in a separate process. */
import { serveParent } from '../../../test/support/child.ts'
import { openRacer } from './racer.fixture.ts'

await serveParent(async ({ url }) => {
  const racer = await openRacer(url)
  return racer.run
})
