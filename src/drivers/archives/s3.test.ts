import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { type S3Options, s3 } from './s3.ts'
import { partBytes } from './s3-upload.ts'

describe('a start', () => {
  const credentials = { accessKeyId: 'key', secretAccessKey: 'secret' }
  const failureOf = (options: Partial<S3Options>): Promise<Error> =>
    s3({ bucket: 'archives', credentials, ...options })
      .start()
      .then(
        () => expect.fail('the start succeeds'),
        (error) => error,
      )

  test('with credentials that cannot be loaded reports the bucket and the cause', async () => {
    const failure = await failureOf({
      endpoint: 'http://127.0.0.1:1',
      credentials: () => Promise.reject(new Error('the vault is sealed')),
    })
    expect(failure.message).toMatch(/"archives": .*the vault is sealed/)
    expect(failure.cause).toBeInstanceOf(Error)
  })

  test('with credentials that may not write reports the bucket', async () => {
    const readOnly = createServer((request, response) => {
      request.resume()
      response.writeHead(request.method === 'HEAD' ? 200 : 403).end()
    })
    await once(readOnly.listen(0, '127.0.0.1'), 'listening')
    try {
      const { port } = readOnly.address() as AddressInfo
      expect((await failureOf({ endpoint: `http://127.0.0.1:${port}` })).message).toMatch(/"archives"/)
    } finally {
      readOnly.closeAllConnections()
      readOnly.close()
    }
  })

  test('without a region and an endpoint reports the missing region', async () => {
    vi.stubEnv('AWS_REGION', undefined)
    vi.stubEnv('AWS_CONFIG_FILE', '/dev/null')
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/dev/null')
    expect((await failureOf({})).message).toMatch(/Region is missing/)
  })
})

describe('the size of a part', () => {
  const MIB = 1024 * 1024
  const room = (estimatedBytes: number | undefined): number => {
    let bytes = 0
    for (let number = 1; number <= 10_000; number++) bytes += partBytes(number, estimatedBytes)
    return bytes
  }

  test('leaves room for 13 times the estimate within 10,000 parts', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 5e12, noNaN: true }), (estimatedBytes) => {
        expect(room(estimatedBytes)).toBeGreaterThan(13 * estimatedBytes)
        expect(room(estimatedBytes)).toBeGreaterThan(2 ** 39)
        expect(partBytes(1, estimatedBytes) % MIB).toBe(0)
      }),
    )
    expect(room(undefined)).toBe(room(0))
  })

  test('is the same for all parts if the estimate is right, and small for a small archive', () => {
    expect(partBytes(1)).toBe(8 * MIB)
    expect(partBytes(1, 40_000 * MIB)).toBe(8 * MIB)
    const estimatedBytes = 1e12
    const size = partBytes(1, estimatedBytes)
    expect(partBytes(Math.ceil(estimatedBytes / size), estimatedBytes)).toBe(size)
    expect(partBytes(5_000, estimatedBytes)).toBe(size)
    expect(partBytes(5_001, estimatedBytes)).toBe(2 * size)
  })
})
