/** The application as one handler of the web standard: for Bun, Deno, Next.js and servers on node:http. */
import { enforceQuota, fetchHandler, type GuardedFetch, guardFetch, impersonation, problemHandler } from 'tenantry/web'
import { type Application, isStream, LIMITED } from './application.ts'

export function fetchApplication({
  tenancy,
  http,
  guard,
  routes,
}: Application): (request: Request) => Promise<Response> {
  const handlers = Object.entries(routes).map(([line, route]) => {
    const respond = async (request: Request, guarded: GuardedFetch) => {
      const body = new Uint8Array(await request.arrayBuffer())
      const result = await route({
        get tenant() {
          return guarded.tenant
        },
        optionalTenant: guarded.optionalTenant,
        impersonation: guarded.impersonation,
        body,
        headers: request.headers,
      })
      return isStream(result) ? new Response(ReadableStream.from(bytesOf(result))) : Response.json(result)
    }
    const inner = impersonation(tenancy.impersonation, respond)
    const limited = line === LIMITED ? enforceQuota(tenancy.quotas, 'exports', inner) : inner
    return [line, guardFetch(guard, problemHandler(tenancy.kernel.log, limited))] as const
  })
  const byLine = new Map(handlers)
  const other = guardFetch(guard, () => new Response('not mine', { status: 404 }))
  return fetchHandler(http, (request) => {
    const handle = byLine.get(`${request.method} ${new URL(request.url).pathname}`) ?? other
    return handle(request)
  })
}

async function* bytesOf(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  for await (const text of texts) yield encoder.encode(text)
}
