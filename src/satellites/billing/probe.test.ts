/** `billing:test-webhook`: whether an event that is sent to an endpoint arrives, and that nothing else is taken for it. */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { nodeHandler } from '../../http/hosts/node.ts'
import { createReceivers } from '../../http/receivers.ts'
import { freePort } from '../../testing/free-port.ts'
import { openBilling } from './billing.fixture.ts'
import { type OpenProgram, openProgram } from './commands.fixture.ts'
import { probeHere } from './probe.ts'

vi.setConfig({ testTimeout: 60_000 })

let program: OpenProgram
const arrived = async (eventId: string) => (await program.open.inbox()).filter((event) => event.eventId === eventId)
const servers: Server[] = []
const listening = async (answer: RequestListener) => {
  const server = createServer(answer)
  servers.push(server)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
let served: string
let other: string

beforeAll(async () => {
  program = await openProgram()
  const receive = nodeHandler(createReceivers(program.open.tenancy))
  served = await listening((request, response) => {
    if (request.url === '/webhooks/stripe') receive(request, response)
    else response.writeHead(404).end()
  })
  other = await listening((_, response) => response.writeHead(200).end('{"received":true}'))
})
afterAll(async () => {
  await program.end()
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
})

test('gives an event to the receiver', async () => {
  const { code, answer } = await program.json('billing:test-webhook')
  expect({ code, answer }).toMatchObject({ code: 0, answer: { received: true, status: null } })
  expect(await arrived(answer.eventId)).toMatchObject([{ type: 'tenantry.test', status: 'waiting' }])
  await program.open.process()
  expect(await arrived(answer.eventId)).toMatchObject([{ status: 'completed' }])
})

test('gives it one from an address that may send', async () => {
  const webhook = { allowedIps: ['10.1.0.0/16'], trustProxy: 2 }
  const behind = await openBilling(inject('postgresUrl'), { options: { webhook } })
  expect(await probeHere(behind.tenancy.billing)).toMatchObject({ received: true })
  await behind.end()
})

test('sends one over the network, to where it is served', async () => {
  const { code, answer } = await program.json('billing:test-webhook', '--url', `${served}/webhooks/stripe`)
  expect({ code, answer }).toMatchObject({ code: 0, answer: { received: true, status: 200 } })
  expect(await arrived(answer.eventId)).toHaveLength(1)
})

test.each([
  ['another path', () => `${served}/webhooks`, 404],
  ['another server that answers the same', () => `${other}/webhooks/stripe`, 200],
])('fails at %s', async (_, url, status) => {
  const { code, answer, stderr } = await program.json('billing:test-webhook', '--url', url())
  expect({ code, answer }).toMatchObject({ code: 6, answer: { received: false, status } })
  expect(stderr).toContain(`was answered with ${status}`)
  expect(await arrived(answer.eventId)).toEqual([])
})

test('fails where the secret is another one', async () => {
  const env = { STRIPE_WEBHOOK_SECRET: 'whsec_of_another_endpoint' }
  const line = ['billing:test-webhook', '--url', `${served}/webhooks/stripe`]
  expect(await program.tenantry.start(line, { env, stdin: '' }).ended).toMatchObject({
    code: 6,
    stdout: expect.stringMatching(/status +401/),
  })
})

test('fails where nobody listens, and at what is no URL', async () => {
  const nobody = `http://127.0.0.1:${await freePort()}/webhooks/stripe`
  expect(await program.tenantry.run('billing:test-webhook', '--url', nobody)).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('Nothing answers at'),
  })
  expect((await program.tenantry.run('billing:test-webhook', '--url', 'ftp://somewhere')).code).toBe(2)
})
