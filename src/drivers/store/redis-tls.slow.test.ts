import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { freePort, type RedisServer, startRedisServer } from '../../../test/support/redis-server.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { openInRedis } from './redis.fixture.ts'

const SUBJECT = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
const one = [{ name: 'calls', amount: 1, limit: null }]

let server: RedisServer
let directory: string
let url: string
let ca: Buffer

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-tls-'))
  const [key, certificate] = [join(directory, 'key.pem'), join(directory, 'certificate.pem')]
  const files = ['-keyout', key, '-out', certificate]
  await promisify(execFile)('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    ...files,
    ...SUBJECT,
  ])
  const port = await freePort()
  server = await startRedisServer([
    ...['--tls-port', String(port), '--tls-cert-file', certificate, '--tls-key-file', key],
    ...['--tls-ca-cert-file', certificate, '--tls-auth-clients', 'no'],
  ])
  url = `rediss://127.0.0.1:${port}`
  ca = await readFile(certificate)
})
afterAll(async () => {
  await server.stop()
  await rm(directory, { recursive: true, force: true })
})

test('the store redis connects by TLS to a server with a trusted certificate', async () => {
  const opened = await openInRedis({ url, tls: { ca } }, { url: server.url })
  await opened.store.set('acme', 'key', 'value')
  expect(await opened.store.get('acme', 'key')).toBe('value')
  expect(await opened.store.counters.take('acme', one)).toMatchObject({ usages: [1] })
  const received: string[] = []
  await opened.store.subscribe(
    'news',
    (message) => void received.push(message),
    () => undefined,
  )
  await opened.store.publish('news', 'sealed')
  await vi.waitFor(() => expect(received).toEqual(['sealed']), 10_000)
  await opened.store.close()
  await opened.cleanUp()
})

test('the store redis fails for a server with an untrusted certificate', async () => {
  const opened = await openInRedis({ url, timeoutMs: 1_000 }, { url: server.url })
  await expect(opened.store.counters.take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches)
  await expect(opened.store.get('acme', 'key')).rejects.toSatisfy(DependencyUnavailable.matches)
  await opened.store.close()
  await opened.cleanUp()
})
