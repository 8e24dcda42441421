/** Checks memory for large archives in OpenStack Swift. */
import { archivesSuite } from '../src/testing/archives/suite.ts'
import { makeBucket } from './swift/bucket.ts'
import { startSwift } from './swift/swift.ts'

await archivesSuite(
  's3, on Swift',
  async () => {
    const swift = await startSwift()
    const { open, close } = await makeBucket(swift, 'archives')
    return {
      open,
      async close() {
        await close()
        await swift.stop()
      },
    }
  },
  { parts: ['memory'] },
)
