/**
 * Faults on the whole way of a host's statement: `tenancy.tenant(id)`, the registry, the circuit, the driver, and the second try
 * after a fence. At each message to the server the line is cut, the answer is lost, or nothing more is heard. After each, on every
 * driver: no statement was run twice, what was answered was done, no row is another tenant's and no connection is in another
 * tenant's scope, none is lost from the budget, and the next call works.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DependencyUnavailable } from '../src/kernel/base/errors.ts'
import type { TenantHandle } from '../src/tenants/handles/handle.ts'
import { StorageFenced } from '../src/tenants/isolation/driver.ts'
import { CircuitOpen } from '../src/tenants/tenant/errors.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { raw } from '../src/testing/leak/operations.ts'
import { MESSAGES } from './faults/messages.ts'
import { expectWhole, openTenancyEnvironment, ownersOf, type TenancyEnvironment } from './faults/tenancy-environment.ts'
import type { FaultKind } from './support/fault-proxy.ts'

const KINDS = ['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch', 'schema-pg, transaction']
/** Each way to send a statement meets each fault here; with the other kinds one way does, in turn: the tenancy above is the same. */
const COMPLETE = 'schema-pg, batch'
const FAULTS: readonly FaultKind[] = ['cut the line', 'lose the answer', 'hang']
const WRITE = `insert into items (id, owner) values (nextval('numbers')::int, 'of a')`

type Tenancy = TenancyEnvironment['tenancy']
interface Way {
  /** How many statements it sends, each of which takes a number. */
  readonly writes: number
  /** Whether it is told of a fence, and does what it does again itself: a client that was taken is not exchanged. */
  readonly isNotifiedOfFences?: boolean
  readonly go: (tenancy: Tenancy) => Promise<unknown>
}
const WAYS: Readonly<Record<string, Way>> = {
  'a statement alone': { writes: 1, go: async (tenancy) => raw((await tenancy.tenant('a')).db, WRITE) },
  'a statement of the pool': { writes: 1, go: async (tenancy) => (await tenancy.tenant('a')).pool.query(WRITE) },
  'a transaction': {
    writes: 2,
    go: async (tenancy) => {
      const { transaction } = await tenancy.tenant('a')
      await transaction(async (db) => {
        for (let n = 0; n < 2; n++) await raw(db, WRITE)
      })
    },
  },
  'a client, in work for the tenant': {
    writes: 2,
    isNotifiedOfFences: true,
    go: (tenancy) =>
      tenancy.run('a', async ({ pool }) => {
        const client = await pool.connect()
        try {
          await client.query('begin')
          for (let n = 0; n < 2; n++) await client.query(WRITE)
          await client.query('commit')
        } finally {
          client.release()
        }
      }),
  },
}

/** All ways, beginning with another one for each kind, fault and message. */
function waysFor(kind: string, fault: FaultKind, message: string): [string, Way][] {
  const all = Object.entries(WAYS)
  const first = (KINDS.indexOf(kind) + FAULTS.indexOf(fault) + message.length) % all.length
  return [...all.slice(first), ...all.slice(0, first)]
}

describe.each(KINDS)('faults through a tenancy, %s', (kind) => {
  let environment: TenancyEnvironment
  beforeAll(async () => {
    environment = await openTenancyEnvironment(inject('postgresUrl'), kind)
  })
  afterAll(() => environment?.close())

  const expectServed = async (id: string) =>
    expect(await ownersOf(await environment.tenancy.tenant(id))).toEqual([`of ${id}`])

  /** Goes the way while the fault is armed, and sees that nothing was done twice. Returns how it ended. */
  async function meet(text: string, kind: FaultKind, way: Way, { passes = 0, mostRuns = way.writes } = {}) {
    const { writes, go } = way
    const fault = environment.proxy.at(text, kind, passes)
    const before = await environment.look('a')
    const going = go(environment.tenancy).then(
      () => 'done',
      (error: unknown) => error,
    )
    if (kind === 'hang') {
      await Promise.race([going, fault.happened])
      if (fault.hasHappened) await expectServed('b') // who hangs keeps nobody else waiting
    } else await going
    const isMet = fault.hasHappened
    fault.end()
    const ended = await going
    const after = await environment.look('a')
    const [runs, rows] = [after.runs - before.runs, after.owners.length - before.owners.length]
    expect(runs).toBeLessThanOrEqual(mostRuns)
    expect([0, writes]).toContain(rows)
    expect(rows).toBeLessThanOrEqual(runs)
    if (ended === 'done') expect(rows).toBe(writes)
    await expectWhole(environment)
    return { ended, isMet }
  }

  describe.each(FAULTS)('%s', (fault) => {
    test.each(Object.entries(MESSAGES))('at the %s', async (message, text) => {
      let met = 0
      for (const [name, way] of waysFor(kind, fault, message)) {
        if (met > 0 && kind !== COMPLETE) break
        if (text === MESSAGES.startup) await environment.endSessions()
        const { ended, isMet } = await meet(text, fault, way)
        if (isMet) met++
        if (ended !== 'done') expect(ended, name).toSatisfy(DependencyUnavailable.matches)
      }
      expect(met).toBeGreaterThan(0)
    })
  })

  describe('a fence that a process left before an active tenant, which is met, taken away, and gone past', () => {
    const again = {
      ...MESSAGES,
      look: kind.startsWith('rowscope-pg') ? 'select from tenantry.fenced' : 'has_',
      lifting: LIFTED[kind] ?? '',
    }
    const faults = FAULTS.filter((fault) => fault !== 'hang')
    /** Policies refuse a statement when it has begun: it is undone, but the numbers that it took are gone. */
    const mostRuns = ({ writes }: Way) => (kind.startsWith('rowscope-pg') ? 2 * writes : writes)
    test.each(faults.flatMap((fault) => Object.entries(again).map(([what, text]) => [what, fault, text] as const)))(
      'at the %s: %s',
      async (message, fault, text) => {
        let met = 0
        for (const [name, way] of waysFor(kind, fault, message)) {
          if (met > 0 && kind !== COMPLETE) break
          for (const passes of [0, 1]) {
            if (text === MESSAGES.startup) await environment.endSessions()
            await environment.driver.fence(await environment.locationOf('a'))
            const { ended, isMet } = await meet(text, fault, way, { passes, mostRuns: mostRuns(way) })
            if (isMet) met++
            if (ended !== 'done' && !(way.isNotifiedOfFences && StorageFenced.matches(ended)))
              expect(ended, name).toSatisfy(DependencyUnavailable.matches)
          }
        }
        expect(met).toBeGreaterThan(0)
      },
    )
  })

  test('a server that goes away opens the circuit: nothing reaches it until a probe may, and the probe may meet a fault', async () => {
    const { tenancy, proxy, clock } = environment
    const tenant: TenantHandle = await tenancy.tenant('a')
    const write = () => raw(tenant.db, WRITE)
    const before = await environment.look('a')
    clock.advance(11_000) // what has been counted is too old to count
    await environment.endSessions()
    for (let calls = 0; calls < 10; calls++) {
      const fault = proxy.at(MESSAGES.startup, 'cut the line')
      await expect(write()).rejects.toSatisfy(DependencyUnavailable.matches)
      fault.end()
    }
    const unmet = proxy.at(MESSAGES.startup, 'cut the line')
    await expect(write()).rejects.toSatisfy(CircuitOpen.matches)
    expect(unmet.hasHappened).toBe(false)
    unmet.end()
    expect((await environment.look('a')).runs).toBe(before.runs)

    clock.advance(30_000)
    const probed = proxy.at('insert into', 'lose the answer')
    await expect(write()).rejects.toSatisfy(DependencyUnavailable.matches)
    expect(probed.hasHappened).toBe(true)
    await expect(write()).rejects.toSatisfy(CircuitOpen.matches)
    expect((await environment.look('a')).runs).toBe(before.runs + 1)

    clock.advance(30_000)
    await write()
    expect((await environment.look('a')).runs).toBe(before.runs + 2)
    await eventually(() =>
      expect(tenancy.tenants.circuits.snapshot().servers.map(({ state }) => state)).not.toContain('OPEN'),
    )
    await expectWhole(environment)
  })
})

/** What the owner sends to take a fence away. */
const LIFTED: Readonly<Record<string, string>> = {
  'schema-pg, batch': 'grant usage on schema',
  'schema-pg, transaction': 'grant usage on schema',
  'rowscope-pg, batch': 'delete from tenantry.fenced',
  'database-pg, batch': 'grant connect on database',
}
