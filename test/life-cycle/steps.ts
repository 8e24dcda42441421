/**
 * Steps of a walk: rounds of actions that start concurrently in different processes, and changes of the clock.
 *
 * An action in the killable process may have a fault, at a number of statements that it sends: so faults occur at every
 * await between two processes or statements, and shrinking finds earlier ones.
 */
import fc, { type Arbitrary } from 'fast-check'

export const TENANTS = {
  schema: 'schema-pg',
  rows: 'rowscope-pg',
  'more-rows': 'rowscope-pg',
  database: 'database-pg',
  memory: 'sqlite-memory',
} as const
export type TenantName = keyof typeof TENANTS

/** `here` runs jobs and has storage in memory, `beside` is another tenancy, `far` is a process that can be killed. */
export const PROCESSES = ['here', 'beside', 'far'] as const
export type ProcessName = (typeof PROCESSES)[number]

export const ACTS = [
  'create',
  'createWithoutJob',
  'suspend',
  'activate',
  'delete',
  'restore',
  'enterMaintenance',
  'exitMaintenance',
  'install',
  'close',
  'purge',
  'purgeExpired',
  'write',
  'writeKept',
  'writeTransaction',
  'read',
  'readKept',
  'migrate',
  'rollback',
] as const
export type Act = (typeof ACTS)[number]

export const WRITES: readonly Act[] = ['write', 'writeKept', 'writeTransaction']
export const READS: readonly Act[] = ['read', 'readKept']
export const MIGRATES: readonly Act[] = ['migrate', 'rollback']
/** Actions after which the tenant's sessions may have ended. */
export const CLOSES: readonly Act[] = ['suspend', 'delete', 'purge']
/** Actions of jobs, which are retried. */
export const REPEATED: readonly Act[] = ['install', 'purge', 'close']

/**
 * `before` and `after` kill the process before a statement is sent or before its response; `cut` ends its connection.
 */
export interface Fault {
  readonly how: 'before' | 'after' | 'cut'
  /** Number of successful statements and connections before the fault. */
  readonly afterStatements: number
}

export interface Action {
  readonly tenant: TenantName
  readonly act: Act
  readonly process: ProcessName
  readonly fault: Fault | null
}

export interface Round {
  readonly actions: readonly Action[]
  /** Whether to wait for all started work before the next round, and to check the complete state. */
  readonly settles: boolean
}

export type Step = Round | 'a month passes'

const WEIGHTS: Partial<Record<Act, number>> = {
  suspend: 6,
  activate: 6,
  delete: 6,
  restore: 6,
  install: 3,
  purge: 5,
  write: 4,
  writeKept: 4,
}
const FEW_STATEMENTS = 8
const MOST_STATEMENTS = 30

const act: Arbitrary<Act> = fc.oneof(...ACTS.map((one) => ({ weight: WEIGHTS[one] ?? 2, arbitrary: fc.constant(one) })))

const fault: Arbitrary<Fault> = fc.record({
  how: fc.constantFrom('after' as const, 'before' as const, 'cut' as const),
  // A rejection sends few of these, the creation of a database nearly all.
  afterStatements: fc.oneof(fc.nat(FEW_STATEMENTS), fc.nat(MOST_STATEMENTS)),
})

const action: Arbitrary<Action> = fc
  .record({
    tenant: fc.constantFrom(...(Object.keys(TENANTS) as TenantName[])),
    act,
    process: fc.constantFrom<ProcessName>('far', 'far', 'beside', 'here'),
    fault: fc.option(fault, { freq: 4 }),
  })
  .map((drawn) => {
    const process = processOf(drawn)
    return { ...drawn, process, fault: process === 'far' ? drawn.fault : null }
  })

/** Storage in memory is available in one process only; that process leaves jobs of other tenants to the others. */
function processOf({ tenant, act, process }: Pick<Action, 'tenant' | 'act' | 'process'>): ProcessName {
  if (act === 'purgeExpired') return process === 'here' ? 'beside' : process
  return TENANTS[tenant] === 'sqlite-memory' ? 'here' : process
}

/** Concurrent actions on a tenant; usually one. */
const actions: Arbitrary<Action[]> = fc
  .tuple(fc.array(action, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([drawn, together]) => {
    const [first] = drawn
    const isMovable = (one: Action) => TENANTS[one.tenant] !== 'sqlite-memory'
    if (!together || !first || !isMovable(first)) return drawn
    return drawn.map((one) => (isMovable(one) ? { ...one, tenant: first.tenant } : one))
  })

const round: Arbitrary<Step> = fc.record({ actions, settles: fc.boolean() }).map(shown)

/** Concurrent creation of tenants, because other actions need one. */
const first: Arbitrary<Step> = fc
  .record({
    actions: fc.tuple(
      ...(Object.keys(TENANTS) as TenantName[]).map((tenant) =>
        fc.option(
          action.map(({ process }) => ({ tenant, act: 'create' as const, process, fault: null })),
          { freq: 4 },
        ),
      ),
    ),
    isLost: fc.boolean(),
    settles: fc.boolean(),
  })
  .map(({ actions, isLost, settles }) => {
    const drawn = actions.filter((one) => one !== null)
    const act: Act = isLost ? 'createWithoutJob' : 'create'
    return shown({ actions: drawn.map((one) => ({ ...one, act, process: processOf(one) })), settles })
  })

/** Actions that give a later action an effect. */
const BEFORE: readonly (readonly [Act, readonly (Act | 'a month passes')[]])[] = [
  ['create', []],
  ['install', ['createWithoutJob']],
  ['suspend', ['create']],
  ['activate', ['create', 'suspend']],
  ['delete', ['create']],
  ['restore', ['create', 'delete']],
  ['restore', ['create', 'suspend', 'delete']],
  ['purge', ['create', 'delete', 'a month passes']],
  ['close', ['create', 'suspend']],
  ['rollback', ['create']],
  ['migrate', ['create', 'rollback']],
  ['writeTransaction', ['create']],
]
const DURABLE = (Object.keys(TENANTS) as TenantName[]).filter((name) => TENANTS[name] !== 'sqlite-memory')

/** One action with an effect, and a fault during it. */
const cutOff: Arbitrary<Step[]> = fc
  .record({ tenant: fc.constantFrom(...DURABLE), which: fc.constantFrom(...BEFORE), fault, settles: fc.boolean() })
  .map(({ tenant, which: [act, before], fault, settles }) => [
    ...before.map((one): Step => {
      if (one === 'a month passes') return one
      const isSent = one === 'create'
      return shown({ actions: [{ tenant, act: one, process: 'beside', fault: null }], settles: isSent })
    }),
    shown({ actions: [{ tenant, act, process: 'far', fault }], settles }),
  ])

const anything = (longest: number): Arbitrary<Step[]> =>
  fc.array(fc.oneof({ weight: 7, arbitrary: round }, { weight: 1, arbitrary: fc.constant<Step>('a month passes') }), {
    minLength: 1,
    maxLength: longest,
    size: 'max',
  })

export const steps = (longest: number): Arbitrary<Step[]> =>
  fc.oneof(
    fc.tuple(first, anything(longest)).map(([made, then]) => [made, ...then]),
    fc.tuple(cutOff, fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, anything(3))).map((parts) => parts.flat()),
  )

function shown(round: Round): Step {
  return Object.assign(round, { [fc.toStringMethod]: () => wordsOf(round) })
}

export const wordsOf = ({ actions, settles }: Round): string =>
  `\n  ${actions.map(describeAction).join(' | ')}${settles ? ', then all work ends' : ''}`

const describeAction = ({ tenant, act, process, fault }: Action): string =>
  `${process}: ${act} ${tenant}${fault ? ` (${fault.how} ${fault.afterStatements})` : ''}`
