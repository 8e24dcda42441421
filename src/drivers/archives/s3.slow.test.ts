/**
 * Tests s3 on s3rver, an npm package: requests and signatures are real, but s3rver lacks some behaviour of S3. Where
 * Debian has installed a complete server, test/swift.slow.test.ts runs the whole suite on it.
 *
 *   it neither lists multipart uploads (501) nor aborts them (405), so their parts stay and are invisible
 *   it assembles a large object in place, so a concurrent reader reads a part of it
 *   it crashes on the second completion of the same upload
 *   it cannot continue a list of more than 1,000 objects, and accepts any secret
 */

import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../../test/support/fault-proxy.ts'
import { startProxy } from '../../../test/support/proxy.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import type { Archives } from '../../tenants/transfers/archive/port.ts'
import { content, contentOf, listed, MB, writing } from '../../testing/archives/subject.ts'
import { archivesSuite } from '../../testing/archives/suite.ts'
import { type S3Options, s3 } from './s3.ts'
import { type S3rver, startS3rver } from './s3rver.fixture.ts'

const SOURCE = join(import.meta.dirname, '../..')
const PACKAGES = join(SOURCE, '../node_modules')
const ATTEMPTS = 3
const SOON_MS = 1_000

let server: S3rver
const opened: Archives[] = []
beforeAll(async () => {
  server = await startS3rver('archives')
})
afterAll(async () => {
  await Promise.all(opened.map((archives) => archives.stop()))
  await server?.stop()
})

async function open(options: Partial<S3Options> = {}): Promise<Archives> {
  const archives = s3({ bucket: 'archives', ...server, ...options })
  opened.push(archives)
  await archives.start()
  return archives
}

await archivesSuite(
  's3 on s3rver',
  async () => {
    const own = await startS3rver('archives')
    return { open: () => open(own), close: () => own.stop() }
  },
  { knowsPartial: false, replacesAtOnce: false, parts: ['writers', 'rest'] },
)

test('objects with another prefix or an invalid key are ignored', async () => {
  const { endpoint, credentials } = server
  const client = new S3Client({ endpoint, credentials, region: 'us-east-1', forcePathStyle: true })
  for (const Key of [
    'README',
    'mine/README',
    'mine/acme/x/y',
    'mine/Acme/x',
    'mine/acme/x.abc.partial',
    'minedacme/x',
  ]) {
    await client.send(new PutObjectCommand({ Bucket: 'archives', Key, Body: 'not an archive' }))
  }
  client.destroy()
  const [mine, yours, bare] = [await open({ prefix: 'mine' }), await open({ prefix: '/yours/' }), await open()]
  await writing(mine, 'acme/x', content(1))
  await writing(yours, 'acme/x', content(2))
  await bare.delete('acme/x')
  expect(await listed(mine)).toMatchObject([{ key: 'acme/x', sizeBytes: 1 }])
  expect(await listed(yours)).toMatchObject([{ key: 'acme/x', sizeBytes: 2 }])
  expect((await listed(bare)).map(({ key }) => key)).toEqual(['minedacme/x'])
  await mine.delete('acme/x')
  expect(await listed(yours)).toHaveLength(1)
})

describe('a start', () => {
  const failureOf = (options: Partial<S3Options>) =>
    open(options).then(
      () => undefined,
      (error: Error) => error,
    )

  test('with a missing bucket reports the remedy', async () => {
    const failure = await failureOf({ bucket: 'nowhere' })
    expect(failure?.message).toMatch(/"nowhere": bucket not found. Create it/)
    expect(failure?.cause).toBeInstanceOf(Error)
  })

  test('with an endpoint needs no region', async () => {
    vi.stubEnv('AWS_REGION', undefined)
    vi.stubEnv('AWS_CONFIG_FILE', '/dev/null')
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/dev/null')
    expect(await failureOf({})).toBeUndefined()
  })

  test('with an unreachable endpoint reports unavailable storage without its address', async () => {
    const proxy = await startProxy(server.endpoint)
    await proxy.close()
    const failure = await failureOf({ endpoint: proxy.url })
    expect(failure).toSatisfy(DependencyUnavailable.matches)
    expect(failure?.message).not.toContain('127.0.0.1')
    expect(failure?.cause).toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('without the SDK reports the missing package', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'tenantry-without-sdk-'))
    try {
      // The same sources, and all packages except the SDK. Links are preserved, so that Node resolves packages from
      // here.
      await symlink(SOURCE, join(elsewhere, 'src'))
      await mkdir(join(elsewhere, 'node_modules'))
      for (const name of await readdir(PACKAGES)) {
        if (name !== '@aws-sdk') await symlink(join(PACKAGES, name), join(elsewhere, 'node_modules', name))
      }
      const program = `
        import { s3 } from './src/drivers/archives/s3.ts'
        await s3({ bucket: 'archives', region: 'us-east-1' }).start().catch(({ code, message, cause }) => {
          console.log(JSON.stringify({ code, message, cause: cause.code }))
        })`
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--preserve-symlinks', '--input-type=module', '--eval', program],
        { cwd: elsewhere },
      )
      expect(JSON.parse(stdout)).toEqual({
        code: 'E_DEPENDENCY_UNAVAILABLE',
        message: 'Backups in S3 need the package @aws-sdk/client-s3: run npm install @aws-sdk/client-s3',
        cause: 'ERR_MODULE_NOT_FOUND',
      })
    } finally {
      await rm(elsewhere, { recursive: true })
    }
  })

  test('is required before any operation, and no operation works after the stop', async () => {
    const archives = s3({ bucket: 'archives', ...server })
    await expect(archives.delete('acme/x')).rejects.toThrow('not started')
    await archives.start()
    await archives.delete('acme/x')
    await archives.stop()
    await archives.stop()
    await expect(listed(archives)).rejects.toThrow('not started, or stopped')
  })
})

describe('an unavailable server', () => {
  const unavailable = expect.objectContaining({
    code: DependencyUnavailable.code,
    message: expect.not.stringContaining('127.0.0.1'),
    cause: expect.any(Error),
  })
  let proxy: Awaited<ReturnType<typeof startProxy>>
  /** Both use the proxy; one has a short timeout. */
  let withDefaultTimeout: Archives
  let withShortTimeout: Archives
  beforeEach(async () => {
    proxy = await startProxy(server.endpoint)
    withDefaultTimeout = await open({ endpoint: proxy.url })
    withShortTimeout = await open({ endpoint: proxy.url, idleTimeoutMs: SOON_MS, connectTimeoutMs: SOON_MS })
    await writing(withDefaultTimeout, 'acme/x', content(20 * MB))
    return () => proxy.close()
  })

  const everything: Readonly<Record<string, (archives: Archives) => Promise<unknown>>> = {
    'a small write': (archives) => writing(archives, 'acme/y', content(10)),
    'a large write': (archives) => writing(archives, 'acme/y', content(20 * MB)),
    'a read': (archives) => contentOf(archives.read('acme/x')),
    'a list': (archives) => listed(archives),
    'a deletion': (archives) => archives.delete('acme/x'),
  }
  const names = Object.keys(everything)

  test.each(names)('fails %s until the server is back', async (what) => {
    await proxy.close()
    await expect(everything[what]?.(withDefaultTimeout)).rejects.toEqual(unavailable)
    await proxy.open()
    await everything[what]?.(withDefaultTimeout)
  })

  test.each(names)('that does not respond fails %s', async (what) => {
    proxy.blackhole()
    await expect(everything[what]?.(withShortTimeout)).rejects.toEqual(unavailable)
  })

  test('fails an upload in progress, even while its source is blocked', async () => {
    const chunks = async function* () {
      yield* content(8 * 1024 * 1024 + 65_536)
      proxy.blackhole() // the next chunk is requested as soon as the first part is in flight
      await new Promise(() => undefined)
    }
    await expect(writing(withShortTimeout, 'acme/y', chunks())).rejects.toEqual(unavailable)
  })

  test.each(['cut', 'silent'])('fails a read in progress: %s', async (how) => {
    let bytes = 0
    const reading = async () => {
      for await (const chunk of withShortTimeout.read('acme/x')) {
        if (bytes === 0) await (how === 'cut' ? proxy.close() : proxy.blackhole())
        bytes += chunk.length
      }
    }
    await expect(reading()).rejects.toEqual(unavailable)
    expect(bytes).toBeLessThan(20 * MB)
    if (how === 'cut') await proxy.open()
  })

  test('differs from a slow reader, which does not time out', async () => {
    const blackholed = await startProxy(server.endpoint)
    const other = await open({ endpoint: blackholed.url, idleTimeoutMs: SOON_MS })
    blackholed.blackhole()
    let bytes = 0
    for await (const chunk of withShortTimeout.read('acme/x')) {
      // Lasts as long as another request needs to fail: three times the idle timeout.
      if (bytes === 0) await expect(listed(other)).rejects.toEqual(unavailable)
      bytes += chunk.length
    }
    expect(bytes).toBe(20 * MB)
    await blackholed.close()
  })
})

test.each([10, 20 * MB])('%i bytes are encrypted by the storage with the configured key', async (bytes) => {
  const proxy = await startFaultProxy(server.endpoint)
  const encryption = { serverSideEncryption: 'aws:kms', kmsKeyId: 'the-key' } as const
  const archives = await open({ endpoint: proxy.through(server.endpoint), ...encryption })
  const faults = [
    proxy.at('x-amz-server-side-encryption: aws:kms', 'cut the line'),
    proxy.at('x-amz-server-side-encryption-aws-kms-key-id: the-key', 'cut the line'),
  ]
  await writing(archives, 'acme/x', content(bytes))
  expect(faults.map(({ hasHappened }) => hasHappened)).toEqual([true, true])
  expect(await contentOf(archives.read('acme/x'))).toMatchObject({ bytes })
  await proxy.close()
})

test('an aborted write aborts its requests in flight', async () => {
  const proxy = await startFaultProxy(server.endpoint)
  const archives = await open({ endpoint: proxy.through(server.endpoint) })
  const fault = proxy.at('UploadPart', 'hang')
  const abort = new AbortController()
  const written = writing(archives, 'acme/x', content(40 * MB), { signal: abort.signal })
  await fault.happened
  const reason = new Error('the service stops')
  abort.abort(reason)
  await expect(written).rejects.toBe(reason)
  fault.end()
  await proxy.close()
})

describe('a lost response', () => {
  const PUT = 'PUT /archives/lost/acme/x'
  let proxy: FaultProxy
  let archives: Archives
  beforeAll(async () => {
    proxy = await startFaultProxy(server.endpoint)
    archives = await open({ endpoint: proxy.through(server.endpoint), prefix: 'lost' })
  })
  afterAll(() => proxy?.close())

  test('does not fail the write: the stored object has the id of the upload', async () => {
    const faults = Array.from({ length: ATTEMPTS }, () => proxy.at(PUT, 'lose the answer'))
    await writing(archives, 'acme/x', content(10, 1))
    expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(10, 1)))
  })

  test('together with its request fails the write, even if another writer has stored the archive', async () => {
    await writing(archives, 'acme/x', content(100, 2))
    const faults = Array.from({ length: ATTEMPTS }, () => proxy.at(PUT, 'cut the line'))
    await expect(writing(archives, 'acme/x', content(10, 3))).rejects.toSatisfy(DependencyUnavailable.matches)
    expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(100, 2)))
  })

  test('is retried once', async () => {
    const fault = proxy.at(PUT, 'cut the line')
    await writing(archives, 'acme/x', content(10, 4))
    expect(fault.hasHappened).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(10, 4)))
  })
})
