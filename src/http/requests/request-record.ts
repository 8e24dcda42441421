/**
 * The fields of the access line and of the error lines of one request. They have neither a path nor a query: both can contain secrets.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { currentContext } from '../../kernel/base/context.ts'
import { traceIdsOf } from '../../kernel/base/trace-context.ts'

/** Members that are still unknown are null. */
export interface RequestRecord {
  readonly method: string
  /** `performance.now()` at its start. */
  readonly startedAt: number
  /** Template with the prefix, such as `/admin/multitenancy/tenants/{id}`. */
  route: string | null
  operation: string | null
  /** Name of the token. */
  principal: string | null
  tenantId: string | null
  /** Code of the problem. */
  code: string | null
}

const records = new AsyncLocalStorage<RequestRecord>()

export const newRecord = (method: string): RequestRecord => ({
  method,
  startedAt: performance.now(),
  route: null,
  operation: null,
  principal: null,
  tenantId: null,
  code: null,
})

export const enterRecord = <T>(record: RequestRecord, work: () => T): T => records.run(record, work)

/** Adds fields to the record. No effect in the routes of a host. */
export function recordRequest(known: Partial<Omit<RequestRecord, 'method' | 'startedAt'>>): void {
  const record = records.getStore()
  if (record) Object.assign(record, known)
}

/** @param method of a request without a record */
export function requestFields(status: number, method: string | null = null) {
  const record = records.getStore()
  const { requestId, actor, tenantId, traceparent } = currentContext()
  return {
    method: record?.method ?? method,
    route: record?.route ?? null,
    status,
    ms: record ? Math.round((performance.now() - record.startedAt) * 10) / 10 : null,
    operation: record?.operation ?? null,
    code: record?.code ?? null,
    principal: record ? record.principal : actor.name,
    tenantId: record?.tenantId ?? (tenantId || null),
    requestId,
    traceId: traceparent === undefined ? null : traceIdsOf(traceparent).traceId,
  }
}
