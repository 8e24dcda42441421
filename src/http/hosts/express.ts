import type { Request, RequestHandler } from 'express'
import type { Http } from '../app.ts'
import { answer, pathnameOf } from './listener.ts'

/**
 * Middleware for Express. Paths that are not ours go on to your routes. The API's prefix is the whole path, wherever this is
 * mounted. A body that a parser has read before is taken from `req.rawBody`, else made again from `req.body`.
 *
 *   const app = express()
 *   app.use(expressHandler(createHttp(tenancy, { adminTokens })))
 *   app.get('/', (req, res) => res.send('mine'))
 *   app.listen(3000)
 */
export function expressHandler(http: Http): RequestHandler {
  return (request, response, next) => {
    if (!http.handles(pathnameOf(request.originalUrl))) return next()
    request.url = request.originalUrl
    if (hasBody(request) && request.readableDidRead) Object.assign(request, { rawBody: bodyOf(request) })
    answer(http, request, response, { ip: request.ip })
  }
}

const hasBody = ({ headers }: Request): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Under this name the listener takes a body that is no longer to be had from the stream. */
function bodyOf(request: Request & { readonly rawBody?: unknown }): Buffer {
  const read = request.rawBody ?? request.body
  if (read === undefined) throw new Error('the body was read before it came to Tenantry, and req.body does not have it')
  if (Buffer.isBuffer(read)) return read
  return Buffer.from(typeof read === 'string' ? read : JSON.stringify(read))
}
