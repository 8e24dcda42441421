/**
 * Compares the lifecycle of tenants with a model, on all isolation drivers and in three processes, of which one is
 * killed or loses a connection at random moments.
 *
 * - The contract's table explains every response. Registry, processes and servers agree in the end.
 * - A closed tenant is closed at the server, each tenant reads exactly its rows, and a purge leaves nothing.
 * - A failure names its seed. TENANTRY_TEST_LIFE_CYCLE_SECONDS sets the duration, TENANTRY_TEST_LIFE_CYCLE_SEED repeats
 *   a walk.
 */
import { randomInt } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Processes } from './life-cycle/processes.ts'
import { steps } from './life-cycle/steps.ts'
import { tenantsRows } from './life-cycle/storage.ts'
import { walk } from './life-cycle/walk.ts'

const DEFAULT_SECONDS = 10
const STEPS = 14
const MOST_WALKS = 1_000_000
const LONGEST_WALK_SECONDS = 240

const seconds = Number(process.env.TENANTRY_TEST_LIFE_CYCLE_SECONDS ?? DEFAULT_SECONDS)
const seed = Number(process.env.TENANTRY_TEST_LIFE_CYCLE_SEED ?? randomInt(2 ** 31))

let processes: Processes
beforeAll(async () => {
  processes = await Processes.open(inject('postgresUrl'))
  await processes.database.sql(tenantsRows)
})
afterAll(() => processes.end())

test(
  'tenants behave as the lifecycle model predicts, with killed processes and cut connections',
  async () => {
    let walks = 0
    let latest = Promise.resolve()
    const walksWell = fc.asyncProperty(steps(STEPS), (drawn) => {
      latest = walk(processes, drawn).then(() => void walks++)
      return latest
    })
    try {
      await fc.assert(walksWell, { seed, numRuns: MOST_WALKS, interruptAfterTimeLimit: seconds * 1_000 })
      await latest // the walk may have been interrupted
    } catch (error) {
      const [last] = await Promise.allSettled([latest])
      // The first walk may take longer than the limit: it counts if it succeeds.
      const isOnlySlow = last.status === 'fulfilled' && /interrupted after 0 tests/.test((error as Error).message)
      const failure = last.status === 'rejected' ? last.reason : error
      if (!isOnlySlow) throw new Error(`with the seed ${seed}: ${(failure as Error).message}`, { cause: failure })
    }
    expect(walks).toBeGreaterThan(0)
    if (seconds > DEFAULT_SECONDS) {
      const { killed, cut } = processes.faults
      console.log(`${walks} walks with the seed ${seed}; ${killed} processes were killed and ${cut} connections cut`)
    }
  },
  (seconds + LONGEST_WALK_SECONDS) * 1_000,
)
