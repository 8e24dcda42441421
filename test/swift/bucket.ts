/** A bucket in Swift, as the subject of the archives suite. */
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { s3 } from '../../src/drivers/archives/s3.ts'
import type { Archives } from '../../src/tenants/transfers/archive/port.ts'
import { startChild } from '../support/child.ts'
import type { Swift } from './swift.ts'

const WRITER = new URL('../../src/drivers/archives/writer-process.fixture.ts', import.meta.url)

export async function makeBucket(swift: Swift, name: string, through = (endpoint: string) => endpoint) {
  const { endpoint, credentials } = swift
  const client = new S3Client({ endpoint, credentials, region: 'us-east-1', forcePathStyle: true })
  await client.send(new CreateBucketCommand({ Bucket: name }))
  client.destroy()
  const options = { bucket: name, endpoint: through(endpoint), credentials, prefix: '/backups/' }
  const opened: Archives[] = []
  return {
    async open(): Promise<Archives> {
      const archives = s3(options)
      await archives.start()
      opened.push(archives)
      return archives
    },
    async crash(key: string) {
      const writer = await startChild(WRITER, { driver: 's3', options, key })
      await writer.request('has written')
      await writer.kill('SIGKILL')
    },
    async close() {
      await Promise.all(opened.map((archives) => archives.stop()))
    },
  }
}
