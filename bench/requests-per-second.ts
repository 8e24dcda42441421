/** Generates load on a route that reads notes: 25 connections, each of which requests all tenants in its own order. */
import autocannon from 'autocannon'
import { anyFolder, TENANTS, tenantId } from './notes.ts'
import type { Served } from './serve.ts'

const CONNECTIONS = 25

/** `cpuMicros` is the CPU time of the server for each request. */
export async function requestsPerSecond(
  server: Served,
  seconds: number,
): Promise<{ average: number; cpuMicros: number }> {
  const before = server.cpuMs()
  const { requests, non2xx, errors } = await autocannon({
    url: server.url,
    connections: CONNECTIONS,
    duration: seconds,
    setupClient(client) {
      const all = Array.from({ length: TENANTS }, (_, n) => ({
        path: `/?folder=${anyFolder()}`,
        headers: { 'x-tenant-id': tenantId(n) },
      }))
      client.setRequests(all.sort(() => Math.random() - 0.5))
    },
  })
  if (non2xx + errors > 0) throw new Error(`${server.url}: ${non2xx + errors} requests failed`)
  return { average: requests.average, cpuMicros: ((server.cpuMs() - before) / requests.total) * 1_000 }
}
