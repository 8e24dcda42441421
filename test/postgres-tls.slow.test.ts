/** Connects the program to a PostgreSQL server by TLS, as docs/deployment.md describes, with right and wrong certificates. */
import { execFile } from 'node:child_process'
import { chown, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { type Program, programWith } from '../src/cli/program.fixture.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { onServer } from '../src/testing/base/database.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

const run = promisify(execFile)

let directory: string
let server: EmbeddedPostgres
let program: Program

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-tls-'))
  await authority('ca')
  await authority('other-ca')
  await serverCertificate('DNS:localhost')
  const data = join(directory, 'postgres')
  const { user } = await findPostgresPrograms(data)
  if (user) await chown(file('server.key'), user.uid, user.gid)
  server = await startEmbeddedPostgres({
    directory: data,
    password: 'tenantry',
    settings: {
      ssl: 'on',
      ssl_cert_file: file('server.crt'),
      ssl_key_file: file('server.key'),
      log_connections: 'on',
      fsync: 'off',
    },
  })
  program = programWith({
    NODE_ENV: 'production',
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    PORT: '0',
  })
})
afterAll(async () => {
  await program?.killAll()
  await server?.stop()
  await rm(directory, { recursive: true, force: true })
})

const file = (name: string) => join(directory, name)

async function authority(name: string): Promise<void> {
  const files = ['-keyout', file(`${name}.key`), '-out', file(`${name}.crt`)]
  await run('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    '-subj',
    `/CN=${name}`,
    ...files,
  ])
}

async function serverCertificate(name: string): Promise<void> {
  const authorityFiles = ['-CA', file('ca.crt'), '-CAkey', file('ca.key')]
  const files = ['-keyout', file('server.key'), '-out', file('server.crt')]
  const subject = ['-subj', '/CN=server', '-addext', `subjectAltName=${name}`]
  await run('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    ...subject,
    ...authorityFiles,
    ...files,
  ])
}

const urlTo = (host: string, query: Record<string, string>): string => {
  const url = new URL(server.url)
  url.hostname = host
  url.search = new URLSearchParams({ sslmode: 'verify-full', ...query }).toString()
  return url.href
}
const endOf = (url: string, ...argv: string[]) => program.start(argv, { env: { DATABASE_URL: url }, stdin: '' }).ended

test('verify-full with the right authority and host encrypts every connection, also those of tenants', async () => {
  const url = urlTo('localhost', { sslrootcert: file('ca.crt') })
  const service = program.start(['serve'], { env: { DATABASE_URL: url }, stdin: '' })
  await service.says(/is ready at/)
  expect(await endOf(url, 'tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
  expect(await endOf(url, 'tenant:exec', 'acme', '--sql', 'select 1')).toMatchObject({ code: 0 })
  const log = await readFile(file('postgres.log'), 'utf8')
  const ofTenants = log.split('\n').filter((line) => line.includes('connection authorized: user=tenantry_tenant'))
  expect(ofTenants).not.toEqual([])
  for (const line of ofTenants) expect(line).toContain('SSL enabled')
  const { rows } = await onServer(server.url, (plain) =>
    plain.sql(`select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid)
      where backend_type = 'client backend' and pid <> pg_backend_pid()`),
  )
  expect(rows).toEqual([{ ssl: true }])
})

test.each([
  ['of another authority', 'localhost', 'other-ca.crt', /self-signed certificate|unable to verify|unable to get/],
  ['of another host', '127.0.0.1', 'ca.crt', /does not match certificate's altnames/],
])('a certificate %s ends the start with a message and exit code 7', async (_, host, ca, reason) => {
  const { code, stderr } = await endOf(urlTo(host, { sslrootcert: file(ca) }), 'serve')
  expect({ code, stderr }).toEqual({ code: 7, stderr: expect.stringMatching(/TLS to the database failed \(/) })
  expect(stderr).toMatch(reason)
})

test('a server without TLS ends the start with a message and exit code 7', async () => {
  const { code, stderr } = await endOf(`${inject('postgresUrl')}?sslmode=verify-full`, 'serve')
  expect({ code, stderr }).toEqual({
    code: 7,
    stderr: expect.stringContaining('TLS to the database failed (The server does not support SSL connections)'),
  })
})

test('an authority whose file is missing is an invalid configuration: exit code 2', async () => {
  const { code, stderr } = await endOf(urlTo('localhost', { sslrootcert: file('absent.crt') }), 'serve')
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining(`DATABASE_URL: sslrootcert: file ${file('absent.crt')} not found or not readable`),
  })
})
