/** Carries the trace of a sender in the data of its job, and runs the job in a span. */
import { parseTraceparent } from '../../kernel/base/trace-context.ts'
import type { Attempt, JobType } from '../../kernel/jobs/jobs.ts'
import type { Tracing } from '../../kernel/resilience/tracing.ts'

/** Earlier versions ignore this member: the schemas of their jobs remove unknown members. */
const TRACEPARENT = 'tenantry.traceparent'

export const withTrace = (data: object, traceparent: string | undefined): object =>
  traceparent === undefined ? data : { ...data, [TRACEPARENT]: traceparent }

/** Separates the trace from the data of a handler. */
export function traceOf(stored: object): { readonly data: object; readonly traceparent: string | undefined } {
  const { [TRACEPARENT]: trace, ...data } = stored as Record<string, unknown>
  return { data, traceparent: parseTraceparent(trace) }
}

interface Run {
  readonly type: JobType
  readonly attempt: Attempt
  readonly tenantId: string | null
}

export async function inJobSpan(
  { span }: Tracing,
  { type, attempt, tenantId }: Run,
  handle: () => Promise<void>,
): Promise<void> {
  if (!span) return await handle()
  const attributes = { 'tenantry.job': type.name, 'tenantry.attempt': attempt.number, 'tenantry.tenant_id': tenantId }
  await span({ name: `job ${type.name}`, kind: 'consumer', attributes }, async () => await handle())
}
