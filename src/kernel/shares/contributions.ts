/** What a part contributes to lists over all parts: attention, timeline, and checks of a tenant's access. All of it is read, never stored. */
import type { SearchProvider } from './search.ts'

/** A function of a part's service that contributes to one response. */
export interface Share<Service = any, Request = any, Result = any> {
  readonly name: string
  /** Default: 1,000. */
  readonly timeoutMs?: number
  readonly read: (service: Service, request: Request) => Promise<Result> | Result
}

/** The worst first. */
export const ATTENTION_SEVERITIES = ['high', 'notice'] as const
export type AttentionSeverity = (typeof ATTENTION_SEVERITIES)[number]

/** An operation with parameters of its path, query and body. */
export interface OperationCall {
  readonly operation: string
  readonly params: Readonly<Record<string, string>>
}

export interface AttentionRequest {
  /** Undefined: of all tenants, and of none. */
  readonly tenantId: string | undefined
  readonly limit: number
  readonly now: Date
}

/** A condition that an operator should look at. Its operation shows it: callers without that operation do not receive the entry. */
export interface AttentionEntry extends OperationCall {
  readonly tenantId: string | null
  readonly title: string
  /** Null if unknown. */
  readonly since: Date | null
  /** Number of objects in this condition, such as failed deliveries. */
  readonly count: number
}

export interface AttentionResult {
  /** The longest lasting first; at most `limit` of each operation. */
  readonly entries: readonly AttentionEntry[]
  /** Number of all entries. */
  readonly total: number
  /** The same by operation, for a kind with several operations: a caller may have one of them only. */
  readonly totals?: Readonly<Record<string, number>>
}

/** Entries of one kind, which is its name. */
export interface AttentionSource<Service = any> extends Share<Service, AttentionRequest, AttentionResult> {
  readonly severity: AttentionSeverity
}

/** The entries of rows, each with the total of all rows of its operation (`count(*) over ()` of a kind with one operation). */
export function attentionOf<Row extends { readonly total: number }>(
  rows: readonly Row[],
  entry: (row: Row) => AttentionEntry,
): AttentionResult {
  const entries = rows.map(entry)
  const totals = Object.fromEntries(entries.map(({ operation }, index) => [operation, rows[index]?.total ?? 0]))
  return { entries, totals, total: Object.values(totals).reduce((sum, one) => sum + one, 0) }
}

export const NO_ATTENTION: AttentionResult = { entries: [], total: 0 }

export interface TimelineRequest {
  readonly tenantId: string
  /** Entries before this sort key. An empty id precedes every id. */
  readonly before: { readonly at: Date; readonly id: string }
  /** Inclusive. */
  readonly from: Date | undefined
  readonly limit: number
  /** Only changes by these operations. */
  readonly actions?: readonly string[]
}

export interface TimelineEntry extends OperationCall {
  /** In whole milliseconds. */
  readonly at: Date
  /** Unique for its kind. */
  readonly id: string
  /** Name of the actor; null if unknown. */
  readonly actor: string | null
  readonly title: string
  /** Of a change: the name of its operation. */
  readonly action?: string
}

/** Entries of one kind, which is its name, by (at, id), the newest first; ids in the order of their bytes. */
export interface TimelineSource<Service = any> extends Share<Service, TimelineRequest, readonly TimelineEntry[]> {
  /** Of a tenant. Callers without it do not receive entries of this kind. */
  readonly operation: string
}

/** Kind of the timeline that has the changes of the audit log; `tenants.explain` finds the change behind a failed check there. */
export const CHANGES = 'change'

export const NIL_UUID = '00000000-0000-0000-0000-000000000000'

export interface AccessRequest {
  readonly tenantId: string
}

export interface AccessResult {
  /** Null: unknown here. */
  readonly passed: boolean | null
  readonly message: string
  /** Code of the error of requests; null if they have none. */
  readonly code?: string | null
  /** Time since which the check fails. */
  readonly since?: Date | null
  readonly remedy?: OperationCall | null
  /** Operations that may have caused a failure. */
  readonly actions?: readonly string[]
}

/** A check of a tenant's access after the guard has admitted a request. Its name is in the explanation. */
export type AccessCheck<Service = any> = Share<Service, AccessRequest, AccessResult>

/** Members of a part. */
export interface Contributions<Service = any> {
  /** Entries of `attention.list`. */
  readonly attention?: readonly AttentionSource<Service>[]
  /** Checks of `tenants.explain`, in the order of a request. */
  readonly accessChecks?: readonly AccessCheck<Service>[]
  /** Entries of `timeline.list`. */
  readonly timeline?: readonly TimelineSource<Service>[]
  /** Results of `search.find`. */
  readonly searchProviders?: readonly SearchProvider<Service>[]
}
