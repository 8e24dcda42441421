/** Starts a Redis cluster of three masters with a third of the slots each. */
import { setTimeout as pause } from 'node:timers/promises'
import { freePort, type RedisServer, startRedisServer } from './redis-server.ts'

const SLOTS = 16_384
const MASTERS = 3
const AGREED_MS = 20_000

export interface RedisCluster {
  readonly urls: readonly string[]
  readonly servers: readonly RedisServer[]
  stop(): Promise<void>
}

/** @param password required from clients, if any */
export async function startRedisCluster(password = ''): Promise<RedisCluster> {
  const { Redis } = await import('ioredis')
  const servers = await Promise.all(
    Array.from({ length: MASTERS }, async () => {
      const busPort = await freePort()
      const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-port', String(busPort)]
      return { busPort, server: await startRedisServer(password ? [...settings, '--requirepass', password] : settings) }
    }),
  )
  const urlOf = ({ url }: RedisServer) => (password ? url.replace('//', `//:${password}@`) : url)
  const clients = servers.map(({ server }) => new Redis(urlOf(server)))
  try {
    for (const [index, client] of clients.entries()) {
      const first = Math.ceil((SLOTS * index) / MASTERS)
      const next = Math.ceil((SLOTS * (index + 1)) / MASTERS)
      await client.call('CLUSTER', 'ADDSLOTSRANGE', first, next - 1)
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    }
    for (const { server, busPort } of servers) {
      await clients[0]?.call('CLUSTER', 'MEET', '127.0.0.1', server.port, busPort)
    }
    const deadline = performance.now() + AGREED_MS
    for (const client of clients) {
      while (!agrees(String(await client.call('CLUSTER', 'INFO')))) {
        if (performance.now() > deadline) throw new Error('the nodes of the cluster did not reach an agreement')
        await pause(50)
      }
    }
  } finally {
    for (const client of clients) client.disconnect()
  }
  return {
    urls: servers.map(({ server }) => urlOf(server)),
    servers: servers.map(({ server }) => server),
    async stop() {
      await Promise.all(servers.map(({ server }) => server.stop()))
    },
  }
}

const agrees = (info: string): boolean =>
  info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${MASTERS}`)
