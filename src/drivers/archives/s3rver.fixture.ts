/** Starts s3rver, an S3-compatible server, in this process with its own port and directory. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
// @ts-expect-error: the package has no types
import Server from 's3rver'

export interface S3rver {
  readonly endpoint: string
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string }
  stop(): Promise<void>
}

export async function startS3rver(...buckets: readonly string[]): Promise<S3rver> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-s3rver-'))
  const configureBuckets = buckets.map((name) => ({ name }))
  const server = new Server({ port: 0, address: '127.0.0.1', silent: true, directory, configureBuckets })
  const { port } = await server.run()
  return {
    endpoint: `http://127.0.0.1:${port}`,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    async stop() {
      await server.close()
      await rm(directory, { recursive: true })
    },
  }
}
