/**
 * What a walk is made of: rounds of turns that begin at the same moment, in different processes; between them the clock moves.
 *
 * A turn in the process that may die can be given a fault, at a moment that is counted in what it asks of a server: so every
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

/** `before` and `after` kill the process, before a statement goes out and before its answer is heard; `cut` ends its connection. */
export interface Fault {
  readonly how: 'before' | 'after' | 'cut'
  /** Statements and connections that go well before it. */
  readonly afterStatements: number
}

export interface Turn {
  readonly tenant: TenantName
  readonly act: Act
  readonly process: ProcessName
  readonly fault: Fault | null
}

export interface Round {
  readonly turns: readonly Turn[]
  /** Whether everything that was begun may end before the next round, and is looked at then. */
  readonly settles: boolean
}

export type Step = Round | 'a month passes'

const WEIGHTS: Partial<Record<Act, number>> = {
  create: 12,
  suspend: 5,
  activate: 5,
  delete: 6,
  restore: 4,
  purge: 4,
  write: 5,
  writeKept: 4,
  install: 4,
}
const MOST_STATEMENTS = 30

const act: Arbitrary<Act> = fc.oneof(
  ...ACTS.map((one) => ({ weight: WEIGHTS[one] ?? 2, arbitrary: fc.constant(one) })),
)

const fault: Arbitrary<Fault> = fc.record({
  how: fc.constantFrom('after' as const, 'before' as const, 'cut' as const),
  afterStatements: fc.nat(MOST_STATEMENTS),
})

const turn: Arbitrary<Turn> = fc
  .record({
    tenant: fc.constantFrom(...(Object.keys(TENANTS) as TenantName[])),
    act,
    process: fc.constantFrom(...PROCESSES),
    fault: fc.option(fault, { freq: 2 }),
  })
  .map((drawn) => {
    // What is in the memory of one process is reached from there alone; and only one of them may die.
    const process = TENANTS[drawn.tenant] === 'sqlite-memory' ? 'here' : drawn.process
    return { ...drawn, process, fault: process === 'far' ? drawn.fault : null }
  })

/** A tenant and what happens to it at once, and mostly to it alone. */
const turns: Arbitrary<Turn[]> = fc
  .tuple(fc.array(turn, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([drawn, together]) => {
    const [first] = drawn
    const isMovable = (one: Turn) => TENANTS[one.tenant] !== 'sqlite-memory'
    if (!together || !first || !isMovable(first)) return drawn
    return drawn.map((one) => (isMovable(one) ? { ...one, tenant: first.tenant } : one))
  })

const round: Arbitrary<Step> = fc
  .record({ turns, settles: fc.boolean() })
  .map((drawn) => ({ ...drawn, [fc.toStringMethod]: () => wordsOf(drawn) }))

export const steps = (longest: number): Arbitrary<Step[]> =>
  fc.array(fc.oneof({ weight: 9, arbitrary: round }, { weight: 1, arbitrary: fc.constant<Step>('a month passes') }), {
    minLength: 1,
    maxLength: longest,
    size: 'max',
  })

export const wordsOf = ({ turns, settles }: Round): string =>
  `\n  ${turns.map(turnWords).join(' | ')}${settles ? ', and it settles' : ''}`

const turnWords = ({ tenant, act, process, fault }: Turn): string =>
  `${process}: ${act} ${tenant}${fault ? ` (${fault.how} ${fault.afterStatements})` : ''}`
