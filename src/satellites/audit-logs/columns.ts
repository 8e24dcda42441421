/** Columns of an entry, in the order of inserts, reads and seals. Another order would give another seal. */
import type { AuditEntryRow } from './model/tables.ts'

type Member = keyof AuditEntryRow

const COLUMN_OF = {
  id: 'id',
  tenantId: 'tenant_id',
  action: 'action',
  actorType: 'actor_type',
  actorId: 'actor_id',
  actorName: 'actor_name',
  target: 'target',
  before: 'before',
  after: 'after',
  requestId: 'request_id',
  ip: 'ip',
  outcome: 'outcome',
  createdAt: 'created_at',
} as const satisfies Record<Member, string>

export const MEMBERS = Object.keys(COLUMN_OF) as Member[]

export const COLUMNS = MEMBERS.map((member) => COLUMN_OF[member])

/** An `AuditEntryRow` of a row. @param entry alias of `audit_entries` */
export const membersOf = (entry: string): string =>
  MEMBERS.map((member) => `${entry}.${COLUMN_OF[member]} as "${member}"`).join(', ')

/**
 * Values of these columns as texts: the input of the HMAC. They are equal after a round trip through the database, which keeps no order
 * of keys.
 */
export const valuesOf = (entry: AuditEntryRow): (string | null)[] =>
  MEMBERS.map((member) => {
    const value = entry[member]
    // PostgreSQL's form of an unpaired surrogate.
    if (typeof value === 'string') return value.toWellFormed()
    if (typeof value !== 'object' || value === null) return value
    return value instanceof Date ? value.toISOString() : (inOrder(value) ?? null)
  })

/** JSON with sorted keys; undefined for values that JSON omits. */
function inOrder(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if ('toJSON' in value && typeof value.toJSON === 'function') return inOrder(value.toJSON())
  if (Array.isArray(value)) return `[${Array.from(value, (one) => inOrder(one) ?? 'null').join()}]`
  let members = ''
  for (const [name, one] of Object.entries(value).sort(byName)) {
    const text = inOrder(one)
    if (text !== undefined) members += `${members && ','}${JSON.stringify(name)}:${text}`
  }
  return `{${members}}`
}

const byName = ([one]: [string, unknown], [other]: [string, unknown]): number => (one < other ? -1 : 1)
