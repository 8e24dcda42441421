/** The audit log in lists over all parts: changes in the timeline of a tenant, a failed verification as attention, entries in a search. */
import {
  type AttentionRequest,
  type AttentionResult,
  CHANGES,
  type Contributions,
  NO_ATTENTION,
  type TimelineEntry,
  type TimelineRequest,
} from '../../../kernel/shares/contributions.ts'
import { changeTitle } from './change-title.ts'
import type { FailedVerifications } from './failed-verification.ts'
import { searchProviders } from './search.ts'

/** The part of the audit log that this needs. */
interface ChangeLog {
  changes(request: TimelineRequest): Promise<readonly Change[]>
  readonly failedVerifications: FailedVerifications
}

interface Change {
  readonly id: string
  readonly action: string
  readonly target: string
  readonly actor: { readonly name: string }
  readonly outcome: string
  readonly createdAt: string
}

export const contributions: Contributions<ChangeLog> = {
  timeline: [{ name: CHANGES, operation: 'auditLogs.list', read: changes }],
  searchProviders,
  attention: [{ name: 'auditVerification', severity: 'high', read: failedVerification }],
}

async function changes(auditLogs: ChangeLog, request: TimelineRequest): Promise<TimelineEntry[]> {
  const entries = await auditLogs.changes(request)
  return entries.map((entry) => ({
    at: new Date(entry.createdAt),
    id: entry.id,
    actor: entry.actor.name,
    action: entry.action,
    title: changeTitle(entry),
    operation: 'auditLogs.list',
    params: { id: request.tenantId, action: entry.action, target: entry.target },
  }))
}

async function failedVerification(auditLogs: ChangeLog, { tenantId }: AttentionRequest): Promise<AttentionResult> {
  const failed = await auditLogs.failedVerifications.latest()
  if (!failed || (tenantId !== undefined && !failed.tenants.includes(tenantId))) return NO_ATTENTION
  return {
    total: 1,
    entries: [
      {
        tenantId: tenantId ?? null,
        title: 'Audit log verification failed',
        since: failed.at,
        count: failed.problems,
        operation: 'auditLogs.verify',
        params: tenantId === undefined ? {} : { tenantId },
      },
    ],
  }
}
