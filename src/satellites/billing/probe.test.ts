/** Tests whether a probe event arrives in the inbox, and that a response of another server does not count. */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { nodeHandler } from '../../http/hosts/node.ts'
import { createReceivers } from '../../http/receivers.ts'
import { type OpenBilling, openBilling } from './billing.fixture.ts'
import { billing } from './index.ts'
import { probe, probeHere } from './probe.ts'

let open: OpenBilling
const arrived = async (eventId: string) => (await open.inbox()).filter((event) => event.eventId === eventId)
const servers: Server[] = []
const listening = async (listener: RequestListener) => {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
let served: string
let other: string

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
  const receive = nodeHandler(createReceivers(open.tenancy))
  served = await listening((request, response) => {
    if (request.url === '/webhooks/stripe') receive(request, response)
    else response.writeHead(404).end()
  })
  other = await listening((_, response) => response.writeHead(200).end('{"received":true}'))
})
afterAll(async () => {
  await open.end()
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
})

describe('a probe without HTTP', () => {
  test('is received and processed', async () => {
    const { eventId, received, status } = await probeHere(open.tenancy.billing)
    expect({ received, status }).toEqual({ received: true, status: null })
    expect(await arrived(eventId)).toMatchObject([{ type: 'tenantry.test', status: 'waiting' }])
    await open.process()
    expect(await arrived(eventId)).toMatchObject([{ status: 'completed' }])
  })

  test('is sent from an allowed address', async () => {
    const webhook = { allowedIps: ['10.1.0.0/16'], trustProxy: 2 }
    const behind = await open.open({ satellites: [billing({ ...open.options, webhook })] })
    expect(await probeHere(behind.billing)).toMatchObject({ received: true })
    await behind.stop()
  })
})

describe('a probe over the network', () => {
  test('is received by the endpoint', async () => {
    const { eventId, ...probed } = await probe(open.tenancy.billing, `${served}/webhooks/stripe`)
    expect(probed).toMatchObject({ received: true, status: 200 })
    expect(await arrived(eventId)).toHaveLength(1)
  })

  test.each([
    ['another path', () => `${served}/webhooks`, 404],
    ['another server with the same response', () => `${other}/webhooks/stripe`, 200],
  ])('is not received at %s', async (_, url, status) => {
    const { eventId, ...probed } = await probe(open.tenancy.billing, url())
    expect(probed).toMatchObject({ received: false, status })
    expect(await arrived(eventId)).toEqual([])
  })

  test('is not received by an endpoint with another secret', async () => {
    const stripe = { ...open.options.stripe, webhookSecret: 'whsec_of_another_endpoint' }
    const stranger = await open.open({ satellites: [billing({ ...open.options, stripe })] })
    expect(await probe(stranger.billing, `${served}/webhooks/stripe`)).toMatchObject({ received: false, status: 401 })
    await stranger.stop()
  })

  test('fails if no server listens, and for a URL of another protocol', async () => {
    const nowhere = `http://127.0.0.1:${await freePort()}/webhooks/stripe`
    await expect(probe(open.tenancy.billing, nowhere)).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
      message: expect.stringContaining('No server responded at'),
    })
    await expect(probe(open.tenancy.billing, 'ftp://somewhere')).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  })
})
