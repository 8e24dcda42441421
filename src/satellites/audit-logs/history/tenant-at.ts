/**
 * A tenant and its objects at a time, reconstructed from states before and after its changes.
 *
 * - An object starts with the states after its changes up to the time. Members that are still unknown have the state before their next
 *   change. Members of the tenant that never changed have their present value.
 * - It is as complete as the log: an object without an entry is missing, such as an object that a clone received from its source.
 * - An entry without a state, such as a replay, changes nothing. Entries of an erased tenant have no states.
 */
import { sql } from 'kysely'
import { z } from 'zod'
import type { Plans } from '../../../tenants/registry/plans.ts'
import type { TenantRecord } from '../../../tenants/tenant/tenant.ts'
import { ENCRYPTED, ERASED } from '../fields/fields.ts'
import { AuditEntry, toEntry } from '../model/entry.ts'
import type { SealedEntryRow } from '../model/tables.ts'

/** Entries of a tenant that are read, the newest first. */
export const MAX_ENTRIES = 10_000
const MAX_CHANGES = 1_000

/** Objects of a tenant with a state. Kinds that only record actions (backups, requests of impersonations) have none. */
const KINDS = ['tenant', 'setting', 'featureFlag', 'webhook', 'subscription', 'branding', 'sso'] as const
const TENANT_MEMBERS = ['name', 'status', 'metadata', 'domains', 'isolation', 'placement', 'maintenance'] as const

/** Actions that create an object, if they have no state before. */
const CREATION = /\.(create|clone|adopt|set|edit|update|listen)$/

/** SQL: whether an entry is of such an object. */
export const ofStates = sql<boolean>`split_part(target, ':', 1) = any(${KINDS}::text[])`

const moment = z.iso.datetime()
const State = z.record(z.string(), z.unknown()).nullable()

const Change = AuditEntry.omit({ requestId: true, ip: true, hash: true, tenantId: true })
  .extend({
    isSealed: z.boolean().meta({ description: 'Whether the entry is in the chain of the tenant' }),
    isEncrypted: z.boolean().meta({ description: 'Whether the entry is stored encrypted' }),
    isErased: z.boolean().meta({ description: 'Whether its key was destroyed: its states are unknown' }),
  })
  .meta({ id: 'TenantChange' })
export type Change = z.output<typeof Change>

export const TenantAt = z
  .object({
    tenantId: z.string(),
    time: moment,
    until: moment,
    tenant: State.meta({ description: 'Members of the tenant at the time; null if it did not exist' }),
    plan: z.string().nullable().meta({
      description:
        'Null if the tenant did not exist, or if the host decides plans. Without `metadata.plan`: the default plan of today',
    }),
    objects: z
      .array(
        z.object({
          kind: z.enum(KINDS).exclude(['tenant']),
          target: z
            .string()
            .meta({ description: 'The object, as in the audit log', example: 'featureFlag:new-checkout' }),
          state: State.meta({ description: 'Null: the object did not exist' }),
          isComplete: z.boolean().meta({
            description: 'False: members that did not change since the start of the log are missing',
          }),
          lastChange: Change.nullable().meta({
            description: 'Last change up to the time; null if it is not in the log',
          }),
        }),
      )
      .meta({ description: 'By target' }),
    changes: z.array(Change).meta({ description: 'After the time, up to `until`, the newest first; 1,000 at most' }),
    isTruncated: z
      .boolean()
      .meta({ description: 'Whether older entries than the newest 10,000, or older changes, were left out' }),
  })
  .meta({ id: 'TenantAt' })
export type TenantAt = z.output<typeof TenantAt>

export interface Times {
  readonly time: Date
  /** End of the changes; default: the newest. */
  readonly until?: Date | undefined
}

interface Known {
  readonly tenantId: string
  /** Undefined for a purged tenant. */
  readonly present: TenantRecord | undefined
  readonly plans: Pick<Plans, 'describe' | 'isDefined'>
  /** The newest first, at most one more than `MAX_ENTRIES`, as stored. */
  readonly stored: readonly SealedEntryRow[]
  /** End of the changes if the request has none. */
  readonly now: Date
  /** The same, decrypted. */
  readonly entries: readonly SealedEntryRow[]
}

type States = Readonly<Record<string, unknown>>

export function tenantAt(known: Known, { time, until = latest(time, known.now) }: Times): TenantAt {
  const { tenantId, present, stored, plans } = known
  const changes = known.entries.slice(0, MAX_ENTRIES).map((row, index) => toChange(row, stored[index]))
  const byTarget = Map.groupBy(changes.toReversed(), ({ target }) => target)
  const own = `tenant:${tenantId}`
  const tenant = tenantState(byTarget.get(own) ?? [], present, time)
  const objects = [...byTarget].filter(([target]) => target !== own).map(([, ofObject]) => objectAt(ofObject, time))
  const between = changes.filter(({ createdAt }) => isAfter(createdAt, time) && !isAfter(createdAt, until))
  return {
    tenantId,
    time: time.toISOString(),
    until: until.toISOString(),
    tenant,
    plan: planOf(tenant, plans),
    objects: objects.filter((one) => one !== undefined).toSorted((one, other) => (one.target < other.target ? -1 : 1)),
    changes: between.slice(0, MAX_CHANGES),
    isTruncated: known.entries.length > MAX_ENTRIES || between.length > MAX_CHANGES,
  }
}

/** @param changes of one object, the oldest first */
function objectAt(changes: readonly Change[], time: Date): TenantAt['objects'][number] | undefined {
  const ofStates = changes.filter(hasState)
  const { target = '' } = changes[0] ?? {}
  const kind = target.slice(0, target.indexOf(':')) as TenantAt['objects'][number]['kind']
  if (ofStates.length === 0 && !changes.some(({ isErased }) => isErased)) return undefined
  const { state, isComplete } = stateAt(ofStates, time)
  const lastChange = changes.findLast(({ createdAt }) => !isAfter(createdAt, time)) ?? null
  return { kind, target, state, isComplete, lastChange }
}

function tenantState(changes: readonly Change[], present: TenantRecord | undefined, time: Date): States | null {
  if (present && isAfter(present.createdAt, time)) return null
  const { state } = stateAt(changes.filter(hasState), time)
  if (state === null && !present) return null
  return Object.fromEntries(
    TENANT_MEMBERS.flatMap((member) => {
      if (state && Object.hasOwn(state, member)) return [[member, state[member]]]
      return present ? [[member, present[member]]] : []
    }),
  )
}

/** @param changes of one object with states, the oldest first */
function stateAt(changes: readonly Change[], time: Date): { state: States | null; isComplete: boolean } {
  let state: States | undefined | null
  let isComplete = false
  const next = changes.findIndex(({ createdAt }) => isAfter(createdAt, time))
  const earlier = next < 0 ? changes : changes.slice(0, next)
  for (const change of earlier) {
    if (isCreation(change)) isComplete = true
    const after = change.after && statesOf(change.after)
    state = after && (isCreation(change) ? after : { ...state, ...after })
    if (state === null) isComplete = true
  }
  if (state === null) return { state, isComplete }
  for (const change of changes.slice(earlier.length)) {
    if (isCreation(change)) return state === undefined ? { state: null, isComplete: true } : { state, isComplete }
    state = { ...change.before, ...state }
    if (change.after === null) return { state, isComplete: true }
  }
  return { state: state ?? null, isComplete }
}

const isCreation = ({ action, before }: Change): boolean => before === null && CREATION.test(action)
const hasState = (change: Change): boolean => !change.isErased && (change.before !== null || isCreation(change))

/** Without the member of an impersonated change. */
const statesOf = ({ impersonation: _, ...states }: States): States => states

const latest = (one: Date, other: Date): Date => (one > other ? one : other)
const isAfter = (at: string, time: Date): boolean => Date.parse(at) > time.getTime()

function planOf(tenant: States | null, plans: Known['plans']): string | null {
  const { defaultPlan, resolvedBy } = plans.describe()
  if (tenant === null || resolvedBy === 'host') return null
  const { plan } = (tenant.metadata ?? {}) as { plan?: unknown }
  return typeof plan === 'string' && plans.isDefined(plan) ? plan : defaultPlan
}

function toChange(row: SealedEntryRow, stored: SealedEntryRow = row): Change {
  const { requestId: _, ip: __, hash, tenantId: ___, ...entry } = toEntry(row)
  const isEncrypted = stored.actorName.startsWith(ENCRYPTED)
  return { ...entry, isSealed: hash !== null, isEncrypted, isErased: isEncrypted && row.actorName === ERASED }
}
