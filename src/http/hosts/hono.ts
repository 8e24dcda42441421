import type { Context, MiddlewareHandler } from 'hono'
import { cloneRawRequest } from 'hono/request'
import type { Http } from '../app.ts'

export interface HonoOptions {
  /** The address of the client; by default the connection's, where @hono/node-server tells it. */
  readonly ip?: (context: Context) => string | undefined
}

/**
 * Middleware for Hono. Paths that are not ours go on to your routes.
 *
 *   const app = new Hono()
 *   app.use(honoHandler(createHttp(tenancy, { adminTokens })))
 *   app.get('/', (c) => c.text('mine'))
 *   serve({ fetch: app.fetch, port: 3000 })
 */
export function honoHandler(http: Http, { ip = addressOf }: HonoOptions = {}): MiddlewareHandler {
  return async (context, next) => {
    if (!http.handles(new URL(context.req.url).pathname)) return next()
    const { raw } = context.req
    return http.fetch(raw.bodyUsed ? await cloneRawRequest(context.req) : raw, { ip: ip(context) })
  }
}

const addressOf = ({ env }: Context): string | undefined => env?.incoming?.socket?.remoteAddress
