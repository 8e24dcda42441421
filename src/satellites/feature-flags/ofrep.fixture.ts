/** The OFREP provider of the OpenFeature SDK as a client of the admin API, over HTTP. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { OFREPProvider } from '@openfeature/ofrep-provider'
import { type Client, OpenFeature } from '@openfeature/server-sdk'
import { createHttp, DEFAULT_PREFIX } from '../../http/app.ts'
import { nodeHandler } from '../../http/hosts/node.ts'
import { type FlagsTenancy, TOKEN } from './flags.fixture.ts'

export interface OfrepClient {
  readonly client: Client
  end(): Promise<void>
}

export async function openOfrepClient(tenancy: FlagsTenancy): Promise<OfrepClient> {
  const http = createHttp(tenancy, { adminTokens: [{ name: 'server', token: TOKEN, scope: 'runtime' }] })
  const server = createServer(nodeHandler(http)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const baseUrl = `http://127.0.0.1:${port}${DEFAULT_PREFIX}`
  const provider = new OFREPProvider({ baseUrl, headers: [['x-admin-token', TOKEN]] })
  await OpenFeature.setProviderAndWait('ofrep', provider)
  return {
    client: OpenFeature.getClient('ofrep'),
    async end() {
      await OpenFeature.clearProviders()
      server.closeAllConnections()
      server.close()
    },
  }
}
