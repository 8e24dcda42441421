/**
 * What a walk is made of: rounds of actions that begin at the same moment, in different processes; between them the clock moves.
 *
 * An action in the process that may die can be given a fault, at a moment that is counted in what it asks of a server: so every
 * await between two processes or two statements is one at which it may happen, and a smaller one can be found.
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

/** `here` works on jobs and has the storage in memory, `beside` is another tenancy, `far` a process that can be killed. */
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
/** After these the tenant's sessions may be over. */
export const CLOSES: readonly Act[] = ['suspend', 'delete', 'purge']
/** What only jobs do: one that was not done is done again. */
export const REPEATED: readonly Act[] = ['install', 'purge', 'close']

/** `before` and `after` kill the process, before a statement goes out and before its answer is heard; `cut` ends its connection. */
export interface Fault {
  readonly how: 'before' | 'after' | 'cut'
  /** Statements and connections that go well before it. */
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
  /** Whether everything that was begun may end before the next round, and is looked at then. */
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
  // Of these many a refusal has a few, and the making of a database nearly all.
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

/** What is in the memory of one process is reached from there alone; who works on jobs leaves it to others to send them. */
function processOf({ tenant, act, process }: Pick<Action, 'tenant' | 'act' | 'process'>): ProcessName {
  if (act === 'purgeExpired') return process === 'here' ? 'beside' : process
  return TENANTS[tenant] === 'sqlite-memory' ? 'here' : process
}

/** A tenant and what happens to it at once, and mostly to it alone. */
const actions: Arbitrary<Action[]> = fc
  .tuple(fc.array(action, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([drawn, together]) => {
    const [first] = drawn
    const isMovable = (one: Action) => TENANTS[one.tenant] !== 'sqlite-memory'
    if (!together || !first || !isMovable(first)) return drawn
    return drawn.map((one) => (isMovable(one) ? { ...one, tenant: first.tenant } : one))
  })

const round: Arbitrary<Step> = fc.record({ actions, settles: fc.boolean() }).map(shown)

/** Who is not there can only be made: so some are, at once. */
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

/** What has to be done before an act has something to do. */
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

/** One act that has something to do, and a fault in the middle of it. */
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
  `\n  ${actions.map(describeAction).join(' | ')}${settles ? ', and it settles' : ''}`

const describeAction = ({ tenant, act, process, fault }: Action): string =>
  `${process}: ${act} ${tenant}${fault ? ` (${fault.how} ${fault.afterStatements})` : ''}`
