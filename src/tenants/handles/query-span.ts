/** Spans of the statements of tenants: the first word of a statement, without its text and its values. */
import type { Tracing } from '../../kernel/resilience/tracing.ts'
import { leadingTokens } from './leading-tokens.ts'

/** Calls `work` directly without OpenTelemetry. */
export function inQuerySpan<T>({ span }: Tracing, tenantId: string, text: string, work: () => Promise<T>): Promise<T> {
  if (!span) return work()
  const attributes = {
    'db.operation.name': leadingTokens(text, 1)[0]?.toUpperCase(),
    'tenantry.tenant_id': tenantId,
  }
  return span({ name: 'tenant query', kind: 'client', attributes }, work)
}
