import { archivesSuite } from '../../testing/archives/suite.ts'
import { s3 } from './s3.ts'
import { startS3rver } from './s3rver.fixture.ts'

await archivesSuite(
  's3 on s3rver',
  async () => {
    const server = await startS3rver('archives')
    const archives = s3({ bucket: 'archives', ...server })
    await archives.start()
    return {
      open: async () => archives,
      async close() {
        await archives.stop()
        await server.stop()
      },
    }
  },
  { knowsPartial: false, parts: ['memory'] },
)
