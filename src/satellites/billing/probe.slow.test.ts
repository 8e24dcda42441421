/** `billing:test-webhook`: what the program prints, and how it ends. What a probe finds is in probe.test.ts. */
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

test('prints the received event, without HTTP and over HTTP, and ends with 0', async () => {
  const [here, there] = await Promise.all([
    program.json('billing:test-webhook'),
    program.json('billing:test-webhook', '--url', url),
  ])
  expect(here).toMatchObject({ code: 0, answer: { received: true, status: null } })
  expect(there).toMatchObject({ code: 0, answer: { received: true, status: 200 } })
  const ids = (await program.open.inbox()).map(({ eventId }) => eventId)
  expect(ids).toEqual(expect.arrayContaining([here.answer.eventId, there.answer.eventId]))
})

test('ends with 6 where the endpoint has another secret', async () => {
  const env = { STRIPE_WEBHOOK_SECRET: 'whsec_of_another_endpoint' }
  const child = program.tenantry.start(['billing:test-webhook', '--url', url], { env, stdin: '' })
  expect(await child.ended).toMatchObject({
    code: 6,
    stdout: expect.stringMatching(/status +401/),
    stderr: expect.stringContaining('was answered with 401'),
  })
})

test('ends with 7 where no server listens, and with 2 for a URL of another protocol', async () => {
  const nowhere = `http://127.0.0.1:${await freePort()}/webhooks/stripe`
  expect(await program.tenantry.run('billing:test-webhook', '--url', nowhere)).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('Nothing answers at'),
  })
  expect((await program.tenantry.run('billing:test-webhook', '--url', 'ftp://somewhere')).code).toBe(2)
})
