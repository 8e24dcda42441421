/** Erasure in a bucket with versions. The npm package s3rver has none, so a small server answers in the format of Amazon S3. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Archives } from '../../tenants/transfers/archive/port.ts'
import { s3 } from './s3.ts'

interface Version {
  readonly key: string
  readonly id: string
  readonly isMark?: boolean
}

/** The newest version of a key is the last one. */
let versions: Version[]
let forbidden: 'list' | 'delete' | undefined
let server: Server
let archives: Archives

beforeEach(async () => {
  versions = []
  forbidden = undefined
  server = createServer((request, response) => {
    request.resume()
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://localhost')
    const key = decodeURIComponent(pathname.split('/').slice(2).join('/'))
    const prefix = query.get('prefix') ?? ''
    const send = (status: number, body = '') =>
      response.writeHead(status, { 'content-type': 'application/xml' }).end(body)
    if (query.has('uploads')) return send(501)
    if (query.has('versions')) {
      if (forbidden === 'list') return send(403, '<Error><Code>AccessDenied</Code></Error>')
      return send(200, page(prefix, query.get('key-marker')))
    }
    if (query.get('list-type') === '2') return send(200, objects(prefix))
    if (request.method === 'DELETE') {
      const id = query.get('versionId')
      if (id !== null && forbidden === 'delete') return send(403, '<Error><Code>AccessDenied</Code></Error>')
      if (id === null) versions.push({ key, id: `mark-${versions.length}`, isMark: true })
      else versions = versions.filter((one) => one.key !== key || one.id !== id)
      return send(204)
    }
    return send(200)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const credentials = { accessKeyId: 'key', secretAccessKey: 'secret' }
  archives = s3({ bucket: 'archives', endpoint: `http://127.0.0.1:${port}`, credentials })
  await archives.start()
  versions = [
    { key: 'acme/x', id: '1' },
    { key: 'acme/x', id: '2' },
    { key: 'acme/y', id: '3' },
    { key: 'acme/y', id: '4', isMark: true },
    { key: 'acme2/x', id: '5' },
  ]
})
afterEach(async () => {
  await archives.stop()
  server.closeAllConnections()
  server.close()
})

const isLatest = ({ key, id }: Version) => versions.findLast((one) => one.key === key)?.id === id

/** Two versions on a page, so that a list has several pages. */
function page(prefix: string, after: string | null): string {
  const all = versions.filter(({ key }) => key.startsWith(prefix))
  const start = after === null ? 0 : Number(after)
  const items = all.slice(start, start + 2).map((version) => {
    const name = version.isMark ? 'DeleteMarker' : 'Version'
    return `<${name}><Key>${version.key}</Key><VersionId>${version.id}</VersionId><IsLatest>${isLatest(version)}</IsLatest></${name}>`
  })
  const isTruncated = start + 2 < all.length
  const next = isTruncated
    ? `<NextKeyMarker>${start + 2}</NextKeyMarker><NextVersionIdMarker>x</NextVersionIdMarker>`
    : ''
  return `<ListVersionsResult><IsTruncated>${isTruncated}</IsTruncated>${next}${items.join('')}</ListVersionsResult>`
}

function objects(prefix: string): string {
  const present = versions.filter((one) => one.key.startsWith(prefix) && isLatest(one) && !one.isMark)
  return `<ListBucketResult>${present.map(({ key }) => `<Contents><Key>${key}</Key></Contents>`).join('')}</ListBucketResult>`
}

test('an erasure deletes all versions and deletion marks of exactly one tenant', async () => {
  expect(await archives.count('acme')).toEqual({ objects: 1, versions: 3 })
  await archives.erase('acme')
  expect(await archives.count('acme')).toEqual({ objects: 0, versions: 0 })
  expect(versions).toEqual([{ key: 'acme2/x', id: '5' }])
})

test('versions that the bucket protects remain and are counted, without a present object', async () => {
  forbidden = 'delete'
  await archives.erase('acme')
  expect(await archives.count('acme')).toEqual({ objects: 0, versions: 5 })
})

test('the number of versions is unknown if the credentials may not list them', async () => {
  forbidden = 'list'
  expect(await archives.count('acme')).toEqual({ objects: 1, versions: null })
  await archives.erase('acme')
  expect(await archives.count('acme')).toEqual({ objects: 0, versions: null })
})
