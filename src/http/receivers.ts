/**
 * Serves the paths to which other systems post, without admin tokens: the satellite of a path verifies the signature of a request.
 */
import { enterContext } from '../kernel/base/context.ts'
import { NotFound } from '../kernel/base/errors.ts'
import type { Core } from '../tenancy/tenancy.ts'
import { ANONYMOUS, type Mountable } from './app.ts'
import { readBytes } from './input.ts'
import { pathOf } from './paths.ts'
import { MethodNotAllowed, withProblemResponse } from './problem.ts'
import { requestIdOf } from './request-id.ts'
import { respondJson, withoutBodyOfHead } from './respond.ts'

/**
 *   app.use(honoHandler(createReceivers(tenancy)))
 *
 * Mount it before body parsers: a signature covers the bytes of the body.
 */
export function createReceivers({ receivers, kernel }: Core): Mountable {
  const byPath = new Map(receivers.map((receiver) => [receiver.what.path, receiver]))
  const respondTo = async (request: Request, ip: string | null): Promise<Response> => {
    const wired = byPath.get(pathOf(request.url))
    if (!wired) throw NotFound('No resource exists at this path.')
    if (request.method !== 'POST') throw MethodNotAllowed('This path takes POST.', { headers: { allow: 'POST' } })
    const { what, service } = wired
    const received = { headers: request.headers, ip, body: () => readBytes(request) }
    return respondJson(200, await what.receive(service, received))
  }
  return {
    routes: [...byPath.keys()],
    handles: (pathname) => byPath.has(pathname),
    async fetch(request, { ip = null, socketIp = ip } = {}) {
      const requestId = requestIdOf(request.headers.get('x-request-id'))
      const response = await enterContext({ requestId, actor: ANONYMOUS, ip }, () =>
        withProblemResponse(kernel.log, () => respondTo(request, socketIp)),
      )
      return withoutBodyOfHead(request, response)
    },
  }
}
