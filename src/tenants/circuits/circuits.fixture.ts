/** Circuits of several processes on one real store, and calls that meet real server errors, with one clock for all. */
import { expect } from 'vitest'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createSecrets } from '../../kernel/crypto/crypto.ts'
import { Database } from '../../kernel/database/database.ts'
import { type EventOf, Events } from '../../kernel/events/events.ts'
import { TenantLabels } from '../../kernel/metrics/tenant-labels.ts'
import { DependencyDegraded, Resilience } from '../../kernel/resilience/resilience.ts'
import { NO_TRACING } from '../../kernel/resilience/tracing.ts'
import type { Store } from '../../kernel/store/store.ts'
import { tablesOf } from '../../tenancy/composition.ts'
import { partsOf } from '../../tenancy/parts.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { createMigratedDatabase } from '../../testing/base/template.ts'
import { eventually, TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { type CircuitLocation, Circuits, type CircuitsConfig } from './circuits.ts'

export const acme = { tenantId: 'acme', placement: 'main', isolation: 'own' }
export const globex = { tenantId: 'globex', placement: 'main', isolation: 'own' }

/** The record of its open circuit in the store. */
export const OF_ACME = { owner: 'acme', key: 'circuit', placement: 'main' }

export interface CircuitProcess {
  readonly circuits: Circuits
  readonly database: Database
  readonly store: Store
  readonly degraded: EventOf<typeof DependencyDegraded>[]
  /** Ends the process as if killed: awaits nothing. */
  end(): Promise<void>
}

export interface CircuitEnvironment {
  readonly clock: FakeClock
  /** A separate connection that is always available. */
  readonly database: Database
  open(config?: Partial<CircuitsConfig> & { deaf?: boolean }): Promise<CircuitProcess>
  /** Consecutive calls with the named outcome; returns their errors in order. */
  readonly work: Readonly<Record<'healthy' | 'serverDown' | 'databaseMissing' | 'wrongSql', () => Promise<unknown>>>
  /** The records in the store. */
  kept(): Promise<unknown[]>
  untilKept(records: readonly unknown[]): Promise<void>
  end(): Promise<void>
}

/** @param wayToStore returns the URL by which processes reach the store, from that of its database */
export async function openCircuitEnvironment(
  serverUrl: string,
  wayToStore: (url: string) => string | Promise<string> = (url) => url,
): Promise<CircuitEnvironment> {
  const log = createLogger({ level: 'silent' })
  const clock = fakeClock()
  const startMs = clock.now().getTime()
  const driver = postgresStore({ clockOffsetMs: () => clock.now().getTime() - startMs })
  const { url, drop } = await createMigratedDatabase(serverUrl, tablesOf(partsOf(driver, [])))
  const storeUrl = await wayToStore(url)
  const database = new Database({ url, max: 4 }, log)
  const unreachable = new Database({ url: 'postgres://x@127.0.0.1:1/x' }, log)
  const missing = new Database({ url: `${url}_missing` }, log)
  const processes: CircuitProcess[] = []
  const kept = async () => {
    const { rows } = await database.sql(
      `select owner, key, value::json ->> 'placement' as placement from multitenancy.store
       where key like 'circuit%' and key not like 'circuit-probe%' order by owner, key`,
    )
    return rows
  }
  return {
    clock,
    database,
    work: {
      healthy: () => database.sql('select 1'),
      wrongSql: () => database.sql('select 1/0'),
      serverDown: () => unreachable.sql('select 1'),
      databaseMissing: () => missing.sql('select 1'),
    },
    async open(config = {}) {
      const own = new Database({ url, max: 2 }, log)
      const ofStore = new Database({ url: storeUrl, max: 1 }, log)
      const store = driver.open({ database: ofStore, clock, log })
      const events = new Events(own, clock)
      const degraded: EventOf<typeof DependencyDegraded>[] = []
      events.subscribe(DependencyDegraded, 'after', (event) => void degraded.push(event))
      const resilience = new Resilience({}, { events, log, tracing: NO_TRACING })
      const circuits = new Circuits(
        { store, database: own, secrets: createSecrets(TEST_APP_KEY), resilience, clock, log },
        {
          placements: ['main', 'second'],
          labels: new TenantLabels(1_000),
          reach: (isolation) => (isolation === 'own' ? 'own database' : 'shared database'),
          ...config,
        },
      )
      if (!config.deaf) await circuits.start()
      const process: CircuitProcess = {
        circuits,
        database: own,
        store,
        degraded,
        async end() {
          await own.close()
          await store.close()
          await ofStore.close()
        },
      }
      processes.push(process)
      return process
    },
    kept,
    untilKept: (records) => eventually(async () => expect(await kept()).toEqual(records)),
    async end() {
      for (const { circuits } of processes) await circuits.stop()
      for (const process of processes) await process.end()
      await Promise.all([database, unreachable, missing].map((one) => one.close()))
      await drop()
    },
  }
}

export const stateIn = ({ circuits }: CircuitProcess, tenantId: string) =>
  circuits.snapshot().tenants.find((tenant) => tenant.tenantId === tenantId)?.state

export const untilStateIn = (process: CircuitProcess, tenantId: string, state: string) =>
  eventually(() => expect(stateIn(process, tenantId)).toBe(state))

/** Error codes of `times` consecutive calls; `ok` for a successful call. */
export async function codesOf(
  circuits: Circuits,
  location: CircuitLocation,
  work: () => Promise<unknown>,
  times = 1,
): Promise<string[]> {
  const codes: string[] = []
  for (let n = 0; n < times; n++) {
    codes.push(
      await circuits.run(location, work).then(
        () => 'ok',
        (error: { code?: string }) => error.code ?? String(error),
      ),
    )
  }
  return codes
}
