/** The wait of a command for a job of a remote service whose responses fail. */
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { inProcess } from '../in-process.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

const tenantry = useProgram(inProcess, { LOG_LEVEL: 'warn' })
let server: Server | undefined
afterEach(() => void server?.close())

/** Creates a tenant at a service whose reads have these responses; the last one repeats. */
async function create(reads: readonly ((response: ServerResponse, tenant: object) => void)[], seconds: string) {
  const known = await tenantry.run('tenant:create', 'Acme', '--id', `known-${reads.length}`, '--json')
  const tenant = JSON.parse(known.stdout)
  let count = 0
  server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    if (request.method === 'POST') {
      return response.writeHead(202).end(JSON.stringify({ ...tenant, status: 'provisioning' }))
    }
    return reads[Math.min(count++, reads.length - 1)]?.(response, tenant)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const program = inProcess({ TENANTRY_URL: url, TENANTRY_TOKEN: 'a-token-for-this-test' })
  return { id: tenant.id, ...(await program.run('tenant:create', 'Acme', '--wait', seconds, '--json')) }
}

const restarting = (response: ServerResponse) => void response.socket?.destroy()
const unavailable = (response: ServerResponse) => void response.writeHead(503).end('{}')
const ready = (response: ServerResponse, tenant: object) => void response.end(JSON.stringify(tenant))

test('continues after responses that fail', async () => {
  const { code, stdout, stderr, id } = await create([restarting, unavailable, ready], '30')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(stdout)).toMatchObject({ id, status: 'active' })
})

test('names the job if the service is unavailable until the end of the wait', async () => {
  const { code, stdout, stderr, id } = await create([unavailable], '1')
  expect({ code, stdout }).toEqual({ code: 7, stdout: '' })
  expect(stderr).toContain(`The installation of tenant "${id}" may still run. tenant:show ${id} shows its status.\n`)
  expect(stderr).toContain('E_DEPENDENCY_UNAVAILABLE')
})

test('ends at the first response that is not transient', async () => {
  const gone = (response: ServerResponse) =>
    void response.writeHead(401, { 'content-type': 'application/problem+json' }).end('{"code":"E_UNAUTHORIZED"}')
  const { code } = await create([gone, ready], '30')
  expect(code).toBe(4)
})
