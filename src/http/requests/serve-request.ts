/** Serves one request in its context: request id, trace, span and access line. */
import { type Actor, enterContext } from '../../kernel/base/context.ts'
import { parseTraceparent } from '../../kernel/base/trace-context.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { requestIdOf } from './request-id.ts'
import { enterRecord, newRecord, type RequestRecord, requestFields } from './request-record.ts'

export interface AccessLogOptions {
  /** Whether each request has a log line of level info; default true. */
  readonly accessLog?: boolean | undefined
}

/** The actor of a request before its authentication. */
export const ANONYMOUS: Actor = { type: 'admin', id: 'anonymous', name: 'anonymous' }

/** @param work must not reject */
export function serveRequest(
  { log, tracing }: Pick<Kernel, 'log' | 'tracing'>,
  { method, headers }: Request,
  { ip, accessLog = true }: AccessLogOptions & { readonly ip: string | null },
  work: () => Promise<Response>,
): Promise<Response> {
  const requestId = requestIdOf(headers.get('x-request-id'))
  const traceparent = tracing.traceparent() ?? parseTraceparent(headers.get('traceparent'))
  const record = newRecord(method)
  const respond = async () => {
    const response = await work()
    if (accessLog) log.info(requestFields(response.status), 'request completed')
    return response
  }
  return enterContext({ requestId, actor: ANONYMOUS, ip, traceparent }, () =>
    enterRecord(record, () => (tracing.span ? inSpan(tracing.span, record, respond) : respond())),
  )
}

const inSpan = (
  runInSpan: NonNullable<Kernel['tracing']['span']>,
  record: RequestRecord,
  respond: () => Promise<Response>,
): Promise<Response> =>
  runInSpan({ name: record.method, kind: 'server' }, async (span) => {
    const response = await respond()
    const { method, route, operation, tenantId, code } = record
    if (route !== null) span.rename(`${method} ${route}`)
    span.set({
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': response.status,
      'tenantry.operation': operation,
      'tenantry.tenant_id': tenantId,
    })
    if (response.status >= 500) span.fail(code ?? String(response.status))
    return response
  })
