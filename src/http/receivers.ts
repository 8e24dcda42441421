/**
 * Serves the paths to which other systems post, without admin tokens: the satellite of a path verifies the signature of a request.
 */
import { NotFound } from '../kernel/base/errors.ts'
import type { Core } from '../tenancy/tenancy.ts'
import type { Mountable } from './app.ts'
import { readBytes } from './input.ts'
import { pathOf } from './paths.ts'
import { MethodNotAllowed, withProblemResponse } from './problem.ts'
import { recordRequest } from './requests/request-record.ts'
import { type AccessLogOptions, serveRequest } from './requests/serve-request.ts'
import { respondJson, withoutBodyOfHead } from './respond.ts'

/**
 *   app.use(honoHandler(createReceivers(tenancy)))
 *
 * Mount it before body parsers: a signature covers the bytes of the body.
 */
export function createReceivers({ receivers, kernel }: Core, { accessLog }: AccessLogOptions = {}): Mountable {
  const byPath = new Map(receivers.map((receiver) => [receiver.what.path, receiver]))
  const respondTo = async (request: Request, ip: string | null): Promise<Response> => {
    const wired = byPath.get(pathOf(request.url))
    if (!wired) throw NotFound('No resource exists at this path.')
    recordRequest({ route: wired.what.path })
    if (request.method !== 'POST') throw MethodNotAllowed('This path takes POST.', { headers: { allow: 'POST' } })
    const { what, service } = wired
    const received = { headers: request.headers, ip, body: () => readBytes(request) }
    return respondJson(200, await what.receive(service, received))
  }
  return {
    routes: [...byPath.keys()],
    handles: (pathname) => byPath.has(pathname),
    async fetch(request, { ip = null, socketIp = ip } = {}) {
      const response = await serveRequest(kernel, request, { ip, accessLog }, () =>
        withProblemResponse(kernel.log, () => respondTo(request, socketIp)),
      )
      return withoutBodyOfHead(request, response)
    },
  }
}
