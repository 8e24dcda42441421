/**
 * Injects faults into the complete path of a host's statement: `tenancy.tenant(id)`, registry, circuit, driver, retry
 * after a fence.
 *
 * At each message to the server the connection is cut, the response is lost, or the server hangs. Afterwards, on every
 * driver:
 * - no statement ran twice, and every acknowledged statement is effective
 * - no row belongs to another tenant, and no connection is in another tenant's scope
 * - no connection is lost from the budget, and the next call succeeds
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DependencyUnavailable } from '../src/kernel/base/errors.ts'
import type { Tenant } from '../src/tenants/handles/handle.ts'
import { StorageFenced } from '../src/tenants/isolation/driver.ts'
import { CircuitOpen } from '../src/tenants/tenant/errors.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { raw } from '../src/testing/leak/operations.ts'
import { MESSAGES } from './faults/messages.ts'
import { expectWhole, openTenancyEnvironment, ownersOf, type TenancyEnvironment } from './faults/tenancy-environment.ts'
import type { FaultKind } from './support/fault-proxy.ts'

const KINDS = ['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch', 'schema-pg, transaction']
/**
 * Driver that meets each fault in each way; the others meet each fault in one way, by turns, because the tenancy code
 * is the same.
 */
const COMPLETE = 'schema-pg, batch'
const FAULTS: readonly FaultKind[] = ['cut the line', 'lose the answer', 'hang']
const WRITE = `insert into items (id, owner) values (nextval('numbers')::int, 'of a')`

type Tenancy = TenancyEnvironment['tenancy']
interface Way {
  /** Number of statements, each of which takes a number of a sequence. */
  readonly writes: number
  /** Whether the caller gets the fence error and retries: an acquired client is not replaced. */
  readonly isNotifiedOfFences?: boolean
  readonly go: (tenancy: Tenancy) => Promise<unknown>
}
const WAYS: Readonly<Record<string, Way>> = {
  'a single statement': { writes: 1, go: async (tenancy) => raw((await tenancy.tenant('a')).db, WRITE) },
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

/** All ways, in an order that differs by kind, fault and message. */
function waysFor(kind: string, fault: FaultKind, message: string): [string, Way][] {
  const all = Object.entries(WAYS)
  const first = (KINDS.indexOf(kind) + FAULTS.indexOf(fault) + message.length) % all.length
  return [...all.slice(first), ...all.slice(0, first)]
}

describe.each(KINDS)('faults through a tenancy on %s', (kind) => {
  let environment: TenancyEnvironment
  beforeAll(async () => {
    environment = await openTenancyEnvironment(inject('postgresUrl'), kind)
  })
  afterAll(() => environment?.close())

  const expectServed = async (id: string) =>
    expect(await ownersOf(await environment.tenancy.tenant(id))).toEqual([`of ${id}`])

  /** Runs the way with the fault, checks that nothing was done twice, and returns the result. */
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
      if (fault.hasHappened) await expectServed('b') // a hanging call must not block others
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

  describe('a remaining fence of an active tenant is detected, lifted and retried', () => {
    const again = {
      ...MESSAGES,
      look: kind.startsWith('rowscope-pg') ? 'select from tenantry.fenced' : 'has_',
      lifting: LIFTED[kind] ?? '',
    }
    const faults = FAULTS.filter((fault) => fault !== 'hang')
    /** A policy rejects a statement after its start: the statement is undone, but its sequence numbers are used. */
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

  test('an unavailable server opens the circuit: no call reaches the server until a probe is due, and a probe may fail', async () => {
    const { tenancy, proxy, clock } = environment
    const tenant: Tenant = await tenancy.tenant('a')
    const write = () => raw(tenant.db, WRITE)
    const before = await environment.look('a')
    clock.advance(11_000) // earlier outcomes are too old to count
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

/** Statement of the owner that lifts a fence. */
const LIFTED: Readonly<Record<string, string>> = {
  'schema-pg, batch': 'grant usage on schema',
  'schema-pg, transaction': 'grant usage on schema',
  'rowscope-pg, batch': 'delete from tenantry.fenced',
  'database-pg, batch': 'grant connect on database',
}
