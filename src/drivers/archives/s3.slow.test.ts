/**
 * On s3rver, which npm brings: requests are real and their signatures are checked, but it cannot do all that S3 does.
 *
 *   it neither lists uploads that have not ended (501) nor takes them back (405), so it keeps parts that nobody sees
 *   it puts a large object together in its place, so that who reads meanwhile reads a piece of it
 *   it ends when it is told for the second time that an upload is complete
 *   it cannot go on with a list of more than 1,000, and takes any secret
 *
 * test/swift.slow.test.ts runs the same suite, all of it, on a server that can, where Debian has installed one.
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
  's3, on s3rver',
  async () => {
    const own = await startS3rver('archives')
    return { open: () => open(own), close: () => own.stop() }
  },
  { knowsPartial: false, replacesAtOnce: false, parts: ['writers', 'rest'] },
)

test('what has another prefix, or is no archive, is not seen', async () => {
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

  test('with a bucket that is not there says what to do', async () => {
    const failure = await failureOf({ bucket: 'nowhere' })
    expect(failure?.message).toMatch(/"nowhere": there is none of that name; make it/)
    expect(failure?.cause).toBeInstanceOf(Error)
  })

  test('with a server of one’s own needs no region', async () => {
    vi.stubEnv('AWS_REGION', undefined)
    vi.stubEnv('AWS_CONFIG_FILE', '/dev/null')
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/dev/null')
    expect(await failureOf({})).toBeUndefined()
  })

  test('where nobody listens says that the storage is away, and not where', async () => {
    const proxy = await startProxy(server.endpoint)
    await proxy.close()
    const failure = await failureOf({ endpoint: proxy.url })
    expect(failure).toSatisfy(DependencyUnavailable.matches)
    expect(failure?.message).not.toContain('127.0.0.1')
    expect(failure?.cause).toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('without the SDK says what to install', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'tenantry-without-sdk-'))
    try {
      // The same files, and all packages but one: links are not followed, so that none is found where they lead.
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
        message: 'backups in S3 need the package @aws-sdk/client-s3: install it beside tenantry',
        cause: 'ERR_MODULE_NOT_FOUND',
      })
    } finally {
      await rm(elsewhere, { recursive: true })
    }
  })

  test('has to come first, and after the end nothing can be asked', async () => {
    const archives = s3({ bucket: 'archives', ...server })
    await expect(archives.delete('acme/x')).rejects.toThrow('not started')
    await archives.start()
    await archives.delete('acme/x')
    await archives.stop()
    await archives.stop()
    await expect(listed(archives)).rejects.toThrow('not started, or stopped')
  })
})

describe('a server that goes away', () => {
  const unavailable = expect.objectContaining({
    code: DependencyUnavailable.code,
    message: expect.not.stringContaining('127.0.0.1'),
    cause: expect.any(Error),
  })
  let proxy: Awaited<ReturnType<typeof startProxy>>
  /** Both by way of the proxy; one gives up soon when it hears nothing. */
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

  test.each(names)('fails %s until it is back', async (what) => {
    await proxy.close()
    await expect(everything[what]?.(withDefaultTimeout)).rejects.toEqual(unavailable)
    await proxy.open()
    await everything[what]?.(withDefaultTimeout)
  })

  test.each(names)('without a word fails %s as well', async (what) => {
    proxy.blackhole()
    await expect(everything[what]?.(withShortTimeout)).rejects.toEqual(unavailable)
  })

  test('in the middle of an upload fails it, also while its source has nothing to give', async () => {
    const chunks = async function* () {
      yield* content(8 * 1024 * 1024 + 65_536)
      proxy.blackhole() // what more there may be is asked for as soon as the first part is on its way
      await new Promise(() => undefined)
    }
    await expect(writing(withShortTimeout, 'acme/y', chunks())).rejects.toEqual(unavailable)
  })

  test.each(['cut', 'silent'])('in the middle of reading fails the reader: %s', async (how) => {
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

  test('is not the same as a reader who takes their time', async () => {
    const blackholed = await startProxy(server.endpoint)
    const other = await open({ endpoint: blackholed.url, idleTimeoutMs: SOON_MS })
    blackholed.blackhole()
    let bytes = 0
    for await (const chunk of withShortTimeout.read('acme/x')) {
      // As long as it takes another request to be given up: three times as long as something has to be heard in.
      if (bytes === 0) await expect(listed(other)).rejects.toEqual(unavailable)
      bytes += chunk.length
    }
    expect(bytes).toBe(20 * MB)
    await blackholed.close()
  })
})

test.each([10, 20 * MB])('%i bytes are encrypted by the storage as it was told', async (bytes) => {
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

test('a write that is aborted cuts off what is on its way', async () => {
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

describe('when an answer is lost', () => {
  const PUT = 'PUT /archives/lost/acme/x'
  let proxy: FaultProxy
  let archives: Archives
  beforeAll(async () => {
    proxy = await startFaultProxy(server.endpoint)
    archives = await open({ endpoint: proxy.through(server.endpoint), prefix: 'lost' })
  })
  afterAll(() => proxy?.close())

  test('the archive is there, and known by its mark', async () => {
    const faults = Array.from({ length: ATTEMPTS }, () => proxy.at(PUT, 'lose the answer'))
    await writing(archives, 'acme/x', content(10, 1))
    expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(10, 1)))
  })

  test('with its request, what another writer has put there is not taken for it', async () => {
    await writing(archives, 'acme/x', content(100, 2))
    const faults = Array.from({ length: ATTEMPTS }, () => proxy.at(PUT, 'cut the line'))
    await expect(writing(archives, 'acme/x', content(10, 3))).rejects.toSatisfy(DependencyUnavailable.matches)
    expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(100, 2)))
  })

  test('once, the request is sent again', async () => {
    const fault = proxy.at(PUT, 'cut the line')
    await writing(archives, 'acme/x', content(10, 4))
    expect(fault.hasHappened).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(10, 4)))
  })
})
