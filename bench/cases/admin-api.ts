/**
 * Benchmark of GET /tenants/{id} against a plain Hono route with the same indexed SELECT: separate processes, 25
 * connections.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import autocannon from 'autocannon'
import { type Bench, compare, RUNS } from '../measure.ts'
import { fillRegistry, TOKEN, withTenancy } from '../tenancy.ts'

const CONNECTIONS = 25

export const adminApi = {
  name: 'admin API',
  run: ({ postgresUrl, quick, say }: Bench) =>
    withTenancy(postgresUrl, async (tenancy, url) => {
      await fillRegistry(tenancy, 1_000)
      const servers = await Promise.all([serve('admin-api', url), serve('baseline-route', url)])
      const [ours, baseline] = servers
      const load = (server: Server) => async () => {
        const { requests, non2xx, errors } = await autocannon({
          url: `${server.url}/admin/multitenancy/tenants/tenant-500`,
          headers: { 'x-admin-token': TOKEN },
          connections: CONNECTIONS,
          duration: quick ? 1 : 5,
        })
        if (non2xx + errors > 0) throw new Error(`${server.name}: ${non2xx + errors} requests failed`)
        say(`${server.name}: ${Math.round(requests.average)} requests/s`)
        return requests.average
      }
      try {
        await load(ours)()
        await load(baseline)()
        const measured = await compare(RUNS, load(ours), load(baseline))
        return [
          {
            name: 'GET /tenants/{id}',
            against: 'a bare Hono route with the same SELECT',
            unit: 'requests/s',
            ...measured,
            ratio: measured.ours / measured.reference,
            goal: 0.75,
          },
        ]
      } finally {
        for (const { process } of servers) {
          process.kill('SIGTERM')
          await once(process, 'exit')
        }
      }
    }),
}

interface Server {
  readonly name: string
  readonly url: string
  readonly process: ChildProcess
}

async function serve(name: string, databaseUrl: string): Promise<Server> {
  const child = spawn(
    process.execPath,
    ['--conditions=tenantry-source', join(import.meta.dirname, `../servers/${name}.ts`)],
    {
      env: { ...process.env, DATABASE_URL: databaseUrl, NODE_ENV: 'production' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const [line] = await once(child.stdout, 'data')
  return { name, url: String(line).trim(), process: child }
}
