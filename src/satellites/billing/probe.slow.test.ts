/** Tests output and exit code of `billing:test-webhook`. The result of a probe is tested in probe.test.ts. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { nodeHandler } from '../../http/hosts/node.ts'
import { createReceivers } from '../../http/receivers.ts'
import { type OpenProgram, openProgram } from './commands.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let program: OpenProgram
let server: Server
let url: string

beforeAll(async () => {
  program = await openProgram()
  server = createServer(nodeHandler(createReceivers(program.open.tenancy)))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/stripe`
})
afterAll(async () => {
  await program.end()
  server.close()
  server.closeAllConnections()
})

test('billing:test-webhook prints the received event, without HTTP and over HTTP, and exits with 0', async () => {
  const [here, there] = await Promise.all([
    program.json('billing:test-webhook'),
    program.json('billing:test-webhook', '--url', url),
  ])
  expect(here).toMatchObject({ code: 0, answer: { received: true, status: null } })
  expect(there).toMatchObject({ code: 0, answer: { received: true, status: 200 } })
  const ids = (await program.open.inbox()).map(({ eventId }) => eventId)
  expect(ids).toEqual(expect.arrayContaining([here.answer.eventId, there.answer.eventId]))
})

test('billing:test-webhook exits with 6 if the endpoint has another secret', async () => {
  const env = { STRIPE_WEBHOOK_SECRET: 'whsec_of_another_endpoint' }
  const child = program.tenantry.start(['billing:test-webhook', '--url', url], { env, stdin: '' })
  expect(await child.ended).toMatchObject({
    code: 6,
    stdout: expect.stringMatching(/status +401/),
    stderr: expect.stringContaining('received the response 401'),
  })
})

test('billing:test-webhook exits with 7 if no server listens, and with 2 for a URL of another protocol', async () => {
  const nowhere = `http://127.0.0.1:${await freePort()}/webhooks/stripe`
  expect(await program.tenantry.run('billing:test-webhook', '--url', nowhere)).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('No server responded at'),
  })
  expect((await program.tenantry.run('billing:test-webhook', '--url', 'ftp://somewhere')).code).toBe(2)
})
