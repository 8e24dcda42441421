/**
 * Tests archives in OpenStack Swift through its S3 interface, for properties that s3rver lacks: unfinished uploads are
 * listed and can be aborted, objects are replaced atomically, lists have pages, and credentials are checked.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { s3 } from '../src/drivers/archives/s3.ts'
import type { Archives } from '../src/tenants/transfers/archive/port.ts'
import { content, contentOf, failing, listed, MB, writing } from '../src/testing/archives/subject.ts'
import { archivesSuite } from '../src/testing/archives/suite.ts'
import { type FaultProxy, startFaultProxy } from './support/fault-proxy.ts'
import { makeBucket } from './swift/bucket.ts'
import { LISTED_AT_ONCE, type Swift, startSwift } from './swift/swift.ts'

/** Attempts of the SDK for each request. */
const ATTEMPTS = 3

let swift: Swift
beforeAll(async () => {
  swift = await startSwift()
}, 120_000)
afterAll(() => swift?.stop())

const bucket = (name: string, through?: (endpoint: string) => string) => makeBucket(swift, name, through)

await archivesSuite('s3, on Swift', () => bucket('archives'), { parts: ['crash', 'writers', 'rest'] })

describe('completion of an upload', () => {
  const COMPLETE = 'POST /faults/backups/acme/x?uploadId='
  let proxy: FaultProxy
  let archives: Archives
  beforeAll(async () => {
    proxy = await startFaultProxy(swift.endpoint)
    const subject = await bucket('faults', (endpoint) => proxy.through(endpoint))
    archives = await subject.open()
    return async () => {
      await subject.close()
      await proxy.close()
    }
  })

  test('an upload that completed without a response is recognised by its mark', async () => {
    const faults = Array.from({ length: ATTEMPTS }, () => proxy.at(COMPLETE, 'lose the answer'))
    await writing(archives, 'acme/x', content(20 * MB, 1))
    expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(20 * MB, 1)))
    expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false }])
  })

  test('an upload whose completion was lost is aborted, and the archive of another writer is not mistaken for it', async () => {
    await writing(archives, 'acme/x', content(100, 2))
    const faults = Array.from({ length: ATTEMPTS }, () => proxy.at(COMPLETE, 'cut the line'))
    const written = writing(archives, 'acme/x', content(20 * MB, 3))
    await expect(written).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
    expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
    expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(100, 2)))
    expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false }])
  })
})

test('an upload that cannot be aborted stays listed as partial, and can be aborted later', async () => {
  const proxy = await startFaultProxy(swift.endpoint)
  const subject = await bucket('leftover', (endpoint) => proxy.through(endpoint))
  const archives = await subject.open()
  const faults = Array.from({ length: ATTEMPTS }, () => proxy.at('DELETE /leftover/backups/acme/x?', 'cut the line'))
  const failure = new Error('the tenant was deleted')
  await expect(writing(archives, 'acme/x', failing(20 * MB, failure))).rejects.toBe(failure)
  expect(faults.every(({ hasHappened }) => hasHappened)).toBe(true)
  const [left] = await listed(archives)
  expect(left).toMatchObject({ isPartial: true })
  await archives.delete(left?.key ?? '')
  expect(await listed(archives)).toEqual([])
  await subject.close()
  await proxy.close()
})

test('rejected credentials are reported at the start, with the required rights', async () => {
  const credentials = { ...swift.credentials, secretAccessKey: 'another' }
  const archives = s3({ bucket: 'archives', endpoint: swift.endpoint, credentials })
  await expect(archives.start()).rejects.toThrow(
    /"archives": the storage rejects these credentials. They need s3:ListBucket/,
  )
})

test('a list of several pages has every archive once', async () => {
  const subject = await bucket('pages')
  const archives = await subject.open()
  const keys = Array.from({ length: 2 * LISTED_AT_ONCE + 1 }, (_, index) => `acme/${String(index).padStart(3, '0')}`)
  for (const key of keys) await writing(archives, key, content(1))
  expect((await listed(archives)).map(({ key }) => key)).toEqual(keys)
  await subject.close()
})
