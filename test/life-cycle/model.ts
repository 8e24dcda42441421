/**
 * Model of a tenant by the contract's table. Actions of a round overlap, jobs run concurrently, and the effect of an
 * action in a killed process is unknown. The model is therefore a set of states, which responses and observations
 * narrow; an empty set is a failure.
 */
import type { TaskResult } from './actor.ts'
import { type Act, MIGRATES, READS, WRITES } from './steps.ts'
import type { Registered } from './storage.ts'

export type Status = 'absent' | 'provisioning' | 'active' | 'suspended' | 'failed' | 'deleted' | 'purged'

export interface State {
  readonly status: Status
  /** Status after a restore, for a deleted tenant. */
  readonly before: Status | null
  readonly isMaintained: boolean
  /** A job will install it. */
  readonly hasJob: boolean
  /** Provisioning for so long that it is lost without a job. */
  readonly isOld: boolean
  /** Past its `purgeAt`. */
  readonly isDue: boolean
  readonly isPurging: boolean
  /** A job will purge it if permitted. */
  readonly isPurgeSent: boolean
}

export interface Observation {
  readonly act: Act
  readonly result: TaskResult
}

/** Other explanations of a response. */
export interface Circumstances {
  /**
   * Results that a process with an outdated cache may return: the codes that rejected the tenant since all processes
   * were up to date, and null for admission.
   */
  readonly recent: ReadonlySet<string | null>
  /** Whether another migration run may be unfinished. */
  readonly mayBeMigrating: boolean
  /** Whether it shares its tables: then a rollback applies to all tenants, regardless of its status. */
  readonly isShared: boolean
}

export const ABSENT: State = {
  status: 'absent',
  before: null,
  isMaintained: false,
  hasJob: false,
  isOld: false,
  isDue: false,
  isPurging: false,
  isPurgeSent: false,
}

const NOT_FOUND = 'E_TENANT_NOT_FOUND'
const WRONG_STATE = 'E_TENANT_STATE'

/** Error code of a guarded route; null while the tenant is usable. */
export function rejectionOf({ status, isMaintained }: State): string | null {
  if (status === 'suspended') return 'E_TENANT_SUSPENDED'
  if (status === 'provisioning' || status === 'failed') return 'E_TENANT_NOT_READY'
  if (status !== 'active') return NOT_FOUND
  return isMaintained ? 'E_TENANT_MAINTENANCE' : null
}

/** Whether the server must reject its statements; not required for a tenant that was never active. */
export const mustBeClosed = ({ status, before, isPurging }: State): boolean =>
  !isPurging && (status === 'suspended' || (status === 'deleted' && (before === 'active' || before === 'suspended')))

export interface Explanation {
  readonly states: State[]
  /** Possible rejections on the way to this state. */
  readonly rejections: ReadonlySet<string | null>
}

/** Whether a row of the registry, or its absence, matches the state. */
export function isShown(state: State, row: Registered | undefined): boolean {
  if (!row) return state.status === 'absent'
  if (row.isPurged) return state.status === 'purged'
  return (
    state.status === row.status &&
    state.before === row.statusBefore &&
    state.isMaintained === (row.maintenance !== null) &&
    state.isPurging === row.isBeingPurged
  )
}

/** Status in the cache of an up-to-date process. */
export const beliefIn = ({ status, isMaintained }: State): string =>
  status === 'purged' || status === 'absent' ? 'absent' : `${status}${isMaintained ? ', maintained' : ''}`

/** Possible states after all actions in any order; empty if no order explains the results. */
export function explained(
  states: readonly State[],
  observations: readonly Observation[],
  { recent, ...circumstances }: Circumstances,
): Explanation {
  const isPurged = observations.some(({ act }) => act === 'purge')
  const rejections = new Set(recent)
  const orders = (from: readonly State[], left: readonly Observation[]): State[] => {
    const possible = withJobs(from, isPurged)
    for (const state of possible) rejections.add(rejectionOf(state))
    if (left.length === 0) return possible
    return left.flatMap((one, index) => {
      const next = possible.flatMap((state) => after(state, one, { recent: rejections, ...circumstances }))
      return next.length > 0 ? orders(unique(next), left.toSpliced(index, 1)) : []
    })
  }
  return { states: unique(orders(states, observations)), rejections }
}

/** Adds the possible effects of jobs. @param isPurged whether another process may be purging it */
export function withJobs(states: readonly State[], isPurged = false): State[] {
  const found = [...states]
  for (const state of found) {
    for (const next of byJobs(state, isPurged)) if (!found.some((one) => isSame(one, next))) found.push(next)
  }
  return unique(found)
}

/** States without remaining jobs. */
export const settled = (states: readonly State[]): State[] =>
  withJobs(states)
    .filter(({ status, hasJob }) => status !== 'provisioning' || !hasJob)
    .filter(
      ({ status, isDue, isPurging, isPurgeSent }) => status !== 'deleted' || !isPurgeSent || !(isDue || isPurging),
    )
    .map((state) => ({ ...state, isPurgeSent: false }))

/** States a month later. */
export const aged = (states: readonly State[]): State[] =>
  states.map((state) => ({
    ...state,
    isOld: state.status === 'provisioning' || (state.status === 'deleted' && state.before === 'provisioning'),
    isDue: state.status === 'deleted',
  }))

function byJobs(state: State, isPurged: boolean): State[] {
  const { status, hasJob, isOld, isDue, isPurging, isPurgeSent } = state
  if (status === 'provisioning') return hasJob ? [active(state)] : isOld ? [{ ...state, status: 'failed' }] : []
  if (status !== 'deleted' || !(isPurged || isPurgeSent)) return []
  if (isPurging) return [purged(state)]
  return isDue ? [{ ...state, isPurging: true }] : []
}

/** Possible states after an action with this result. */
function after(state: State, { act, result }: Observation, circumstances: Circumstances): State[] {
  if (WRITES.includes(act) || READS.includes(act)) return isUsed(state, result, circumstances) ? [state] : []
  if (MIGRATES.includes(act)) return isMigrated(state, act, result, circumstances) ? [state] : []
  const { outcome, next } = expected(state, act)
  if (result.kind === 'nothing' || result.kind === 'failed') return [state, ...next]
  if (result.kind === 'refused') return result.code === outcome ? [state] : []
  if (outcome !== 'done') return []
  if (act === 'purge') return purgedBy(state, result.value)
  const isMove = typeof result.value === 'boolean' && act in MOVES
  if (isMove) return result.value ? next : next.length === 0 ? [state] : []
  return next.length > 0 ? next : [state]
}

/** A closed tenant is not usable, regardless of caches; maintenance depends on the cache of the process. */
function isUsed(state: State, result: TaskResult, { recent }: Circumstances): boolean {
  const rejection = rejectionOf(state)
  if (result.kind === 'done') return rejection === null || (rejection === 'E_TENANT_MAINTENANCE' && recent.has(null))
  return result.kind !== 'refused' || result.code === rejection || recent.has(result.code)
}

function isMigrated(
  { status }: State,
  act: Act,
  result: TaskResult,
  { mayBeMigrating, isShared }: Circumstances,
): boolean {
  if (result.kind === 'nothing' || result.kind === 'failed') return true
  const code = result.kind === 'refused' ? result.code : null
  const isForAll = act === 'rollback' && isShared
  if (!isForAll && (status === 'absent' || status === 'purged')) return code === NOT_FOUND
  if (!isForAll && status !== 'active' && status !== 'suspended') return code === WRONG_STATE
  return code === null || (code === 'E_MIGRATION_RUNNING' && mayBeMigrating)
}

interface Expected {
  /** `done`, or the error code. */
  readonly outcome: string
  /** Next states if the action has an effect. */
  readonly next: State[]
}

const done = (...next: State[]): Expected => ({ outcome: 'done', next })
const refused = (outcome: string): Expected => ({ outcome, next: [] })

function expected(state: State, act: Act): Expected {
  const { status } = state
  const isThere = status !== 'absent' && status !== 'purged'
  switch (act) {
    case 'create':
    case 'createWithoutJob':
      if (status !== 'absent') return refused('E_TENANT_EXISTS')
      return done({ ...state, status: 'provisioning', hasJob: act === 'create' })
    case 'suspend':
    case 'activate':
    case 'delete':
    case 'restore':
      return isThere ? MOVES[act](state) : refused(NOT_FOUND)
    case 'enterMaintenance':
    case 'exitMaintenance':
      if (!isThere) return refused(NOT_FOUND)
      if (status === 'deleted') return refused(WRONG_STATE)
      return done({ ...state, isMaintained: act === 'enterMaintenance' })
    case 'install':
      return status === 'provisioning' ? done(active(state)) : done()
    case 'purge':
      return status === 'deleted' && (state.isDue || state.isPurging)
        ? done({ ...state, isPurging: true }, purged(state))
        : done()
    case 'purgeExpired':
      return status === 'deleted' && state.isDue ? done({ ...state, isPurgeSent: true }) : done()
    default:
      return done()
  }
}

const MOVES: Readonly<Record<'suspend' | 'activate' | 'delete' | 'restore', (state: State) => Expected>> = {
  suspend: (state) => {
    if (state.status === 'active') return done({ ...state, status: 'suspended' })
    return state.status === 'suspended' ? done() : refused(WRONG_STATE)
  },
  activate: (state) => {
    if (state.status === 'suspended') return done({ ...state, status: 'active' })
    if (state.status === 'failed') return done({ ...state, status: 'provisioning', hasJob: true, isOld: false })
    return state.status === 'active' ? done() : refused(WRONG_STATE)
  },
  delete: (state) =>
    state.status === 'deleted'
      ? done()
      : done({ ...state, status: 'deleted', before: state.status, hasJob: false, isDue: false }),
  restore: (state) => {
    const { status, before, isPurging } = state
    if (status !== 'deleted' || isPurging || before === null) return refused(WRONG_STATE)
    return done({
      ...state,
      status: before,
      before: null,
      isDue: false,
      isOld: false,
      hasJob: before === 'provisioning',
    })
  },
}

/** Of two concurrent purges, both report success. */
function purgedBy(state: State, hasPurged: boolean): State[] {
  if (state.status === 'purged') return [state]
  const isPurgeable = state.status === 'deleted' && (state.isDue || state.isPurging)
  if (isPurgeable) return hasPurged ? [purged(state)] : []
  return hasPurged ? [] : [state]
}

const active = (state: State): State => ({ ...state, status: 'active', hasJob: false, isOld: false })
const purged = (state: State): State => ({ ...ABSENT, status: 'purged', isPurgeSent: state.isPurgeSent })

const isSame = (one: State, other: State): boolean => JSON.stringify(one) === JSON.stringify(other)

const unique = (states: readonly State[]): State[] =>
  states.filter((state, index) => states.findIndex((one) => isSame(one, state)) === index)

export const wordsOf = (states: readonly State[]): string =>
  states
    .map(({ status, before, ...flags }) => {
      const set = Object.entries(flags).flatMap(([name, value]) => (value ? [name] : []))
      return [before ? `${status} (${before} before)` : status, ...set].join(' ')
    })
    .join(' or ') || 'no possible state'
