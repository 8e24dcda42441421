/** What an entry says, member by member. In this order it is inserted, read, and sealed: another order would be another seal. */
import type { AuditEntryRow } from './tables.ts'

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
 * Values for these columns, as texts: what is inserted is what its HMAC is over. They are the same when the entry comes back from the
 * database, which keeps no order of keys.
 */
export const valuesOf = (entry: AuditEntryRow): (string | null)[] =>
  MEMBERS.map((member) => {
    const value = entry[member]
    // What PostgreSQL has of half a pair of UTF-16.
    if (typeof value === 'string') return value.toWellFormed()
    if (typeof value !== 'object' || value === null) return value
    return value instanceof Date ? value.toISOString() : (inOrder(value) ?? null)
  })

/** JSON with the keys of each object in order; undefined of what JSON leaves out. */
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
