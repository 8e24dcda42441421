/** Makes the report of an erasure from its searches before and after the removal. Independent of the database. */
import type { ExpiringData, FoundData } from '../../kernel/erasable.ts'
import type { Report } from './erasure.ts'
import type { ErasureRow, StepRecord } from './tables.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

export interface Searched {
  readonly system: string
  readonly found: readonly FoundData[]
}

export interface ReportInput {
  readonly row: Pick<ErasureRow, 'tenantId' | 'reason' | 'billing' | 'requestedBy' | 'requestedAt'>
  readonly before: Readonly<Record<string, Pick<StepRecord, 'found' | 'counted'>>>
  /** All systems, in their order. */
  readonly after: readonly Searched[]
  readonly expires: readonly ExpiringData[]
  readonly clones: readonly string[]
  readonly now: Date
}

export function reportOf({ row, before, after, expires, clones, now }: ReportInput): Report {
  const { type, id, name } = row.requestedBy
  return {
    version: 1,
    tenantId: row.tenantId,
    reason: row.reason,
    billing: row.billing,
    requestedBy: { type, id, name },
    requestedAt: row.requestedAt.toISOString(),
    finishedAt: now.toISOString(),
    systems: after.flatMap(({ system, found }) => lines(system, foundBefore(before[system]), found)),
    expires: expires.map(({ what, at }) => ({ what, at: at?.toISOString() ?? null })),
    clones: [...clones],
    limits: [
      'Data that the host keeps in other systems is not part of this report.',
      'The id of the tenant, this report and the times of its life cycle stay.',
    ],
  }
}

/** Data that must not remain. */
export const remaining = (found: readonly FoundData[]): FoundData[] =>
  found.filter(({ count, kept }) => count > 0 && kept === undefined)

/** Copies on servers and of processes, which end by their own retention. */
export const expiringCopies = (now: Date, serverBackupsDays: number): ExpiringData[] => [
  {
    what: 'Base backups and WAL of all PostgreSQL servers',
    at: new Date(now.getTime() + serverBackupsDays * DAY_MS),
  },
  { what: 'Encrypted responses to requests with an Idempotency-Key', at: new Date(now.getTime() + DAY_MS) },
  { what: 'Records of completed jobs', at: new Date(now.getTime() + HOUR_MS) },
  { what: 'Deleted rows and planner statistics in the backoffice, until VACUUM and ANALYZE', at: null },
  { what: 'Logs of the processes', at: null },
]

const foundBefore = (step: ReportInput['before'][string] | undefined): FoundData[] => [
  ...(step?.found ?? []),
  ...(step?.counted ?? []),
]

function lines(system: string, before: readonly FoundData[], after: readonly FoundData[]): Report['systems'] {
  const kinds = [...new Set([...before, ...after].map(({ kind }) => kind))]
  return kinds.flatMap((kind) => {
    const found = before.reduce((sum, one) => (one.kind === kind ? sum + one.count : sum), 0)
    const last = after.find((one) => one.kind === kind)
    const foundAfterwards = last?.count ?? 0
    if (found === 0 && foundAfterwards === 0) return []
    const removed = Math.max(0, found - foundAfterwards)
    return [{ system, kind, found, removed, foundAfterwards, kept: foundAfterwards > 0 ? (last?.kept ?? null) : null }]
  })
}
