/** Serves the application with Bun or Deno, on the database of the test, with a WebSocket at `/socket`. Prints its URL. */
import { createTenancy, schemaPg, type Tenant } from 'tenantry'
import { guardFetch } from 'tenantry/web'
import { applicationOf, CONFIG } from './application.ts'
import { fetchApplication } from './fetch-application.ts'

interface BunServer {
  readonly url: URL
  upgrade(request: Request, options: { data: { tenant: Tenant } }): boolean
}

interface Socket {
  send(text: string): void
}

interface BunSocket extends Socket {
  readonly data: { readonly tenant: Tenant }
}

interface Runtimes {
  readonly Bun?: { serve(options: object): BunServer }
  readonly Deno?: {
    serve(options: object, fetch: (request: Request) => Promise<Response>): unknown
    upgradeWebSocket(request: Request): {
      readonly socket: Socket & { onmessage: (event: { data: string }) => void }
      readonly response: Response
    }
  }
}

const { Bun, Deno } = globalThis as Runtimes
const { DATABASE_URL = '', TENANTRY_APP_KEY = '' } = process.env
const tenancy = await createTenancy({
  ...CONFIG,
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  role: 'api',
})
const application = applicationOf(tenancy)
const fetch = fetchApplication(application)
const error = () => new Response('host', { status: 500 })

/** Reads the text as the tenant, and sends it back. */
async function echo(socket: Socket, { id, pool }: Tenant, text: string): Promise<void> {
  const { rows } = await pool.query('select $1::text as text', [text])
  socket.send(`${id} ${rows[0].text}`)
}

const pathOf = (request: Request) => new URL(request.url).pathname

if (Bun) {
  const upgrade = guardFetch(application.guard, (request, { tenant }, server: BunServer) => {
    const isUpgraded = server.upgrade(request, { data: { tenant } })
    return new Response(null, { status: isUpgraded ? 101 : 426 }) // Bun ignores the response to an upgraded request
  })
  const { url } = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request: Request, server: BunServer) =>
      pathOf(request) === '/socket' ? upgrade(request, server) : fetch(request),
    error,
    websocket: { message: (socket: BunSocket, text: string) => echo(socket, socket.data.tenant, text) },
  })
  console.log(`serving ${url.origin}`)
}
if (Deno) {
  const upgrade = guardFetch(application.guard, (request, { tenant }) => {
    const { socket, response } = Deno.upgradeWebSocket(request)
    socket.onmessage = ({ data }) => void echo(socket, tenant, data)
    return response
  })
  const onListen = ({ port }: { port: number }) => console.log(`serving http://127.0.0.1:${port}`)
  Deno.serve({ port: 0, hostname: '127.0.0.1', onListen, onError: error }, (request) =>
    pathOf(request) === '/socket' ? upgrade(request) : fetch(request),
  )
}
