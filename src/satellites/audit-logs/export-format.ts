/** The audit log as a file: a JSON object on each line, or a table. */
import { csvRow } from './csv.ts'
import type { AuditEntry } from './entry.ts'

export interface Format {
  readonly contentType: string
  /** What the file begins with. */
  readonly head: string
  readonly line: (entry: AuditEntry) => string
}

const COLUMNS: Readonly<Record<string, (entry: AuditEntry) => string | null>> = {
  id: ({ id }) => id,
  tenantId: ({ tenantId }) => tenantId,
  action: ({ action }) => action,
  actorType: ({ actor }) => actor.type,
  actorId: ({ actor }) => actor.id,
  actorName: ({ actor }) => actor.name,
  target: ({ target }) => target,
  before: ({ before }) => before && JSON.stringify(before),
  after: ({ after }) => after && JSON.stringify(after),
  requestId: ({ requestId }) => requestId,
  ip: ({ ip }) => ip,
  outcome: ({ outcome }) => outcome,
  createdAt: ({ createdAt }) => createdAt,
  hash: ({ hash }) => hash,
}

export const FORMATS = {
  ndjson: {
    contentType: 'application/x-ndjson',
    head: '',
    line: (entry) => `${JSON.stringify(entry)}\n`,
  },
  csv: {
    contentType: 'text/csv; charset=utf-8; header=present',
    head: csvRow(Object.keys(COLUMNS)),
    line: (entry) => csvRow(Object.values(COLUMNS).map((cell) => cell(entry))),
  },
} as const satisfies Readonly<Record<string, Format>>

export type ExportFormat = keyof typeof FORMATS
