/** Holds the configured isolation drivers by name, and selects the driver of a tenant. */
import { DependencyUnavailable, invalid } from '../../kernel/base/errors.ts'
import { CheckFailure } from '../../kernel/resilience/health.ts'
import {
  type Capabilities,
  type ConnectionCount,
  copiesNotSupported,
  type DriverEnvironment,
  type IsolationDriver,
} from './driver.ts'

export interface StorageConfig {
  readonly drivers: readonly IsolationDriver[]
  /** Name of the default driver; default: the first one. */
  readonly defaultDriver?: string
  /** Available placements; `main` is the default. */
  readonly placements: readonly string[]
}

export class Storage {
  readonly #drivers: ReadonlyMap<string, IsolationDriver>
  readonly #placements: readonly string[]
  readonly #default: IsolationDriver
  readonly #started: IsolationDriver[] = []

  constructor({ drivers, defaultDriver, placements }: StorageConfig) {
    this.#drivers = new Map(drivers.map((driver) => [driver.name, driver]))
    const chosen = defaultDriver === undefined ? drivers[0] : this.#drivers.get(defaultDriver)
    if (!chosen)
      throw new Error(`the default isolation driver "${defaultDriver ?? ''}" is not among the configured drivers`)
    this.#default = chosen
    this.#placements = placements
  }

  async start(environment: DriverEnvironment): Promise<void> {
    for (const driver of this.#drivers.values()) {
      await driver.start(environment)
      this.#started.push(driver)
    }
  }

  /** Leaves drivers that did not start, because they may serve another tenancy. */
  async stop(): Promise<void> {
    for (const driver of this.#started.splice(0)) await driver.stop()
  }

  /** Dependencies of the statements of this driver's tenants. */
  reach(name: string | undefined): Capabilities['reach'] {
    return this.#drivers.get(name ?? '')?.capabilities.reach ?? 'shared database'
  }

  /** Connections for tenants' queries by placement; drivers share them. */
  connections(): ConnectionCount[] {
    const ofServers = this.drivers.filter(({ capabilities }) => capabilities.reach !== 'no server')
    const counts = ofServers.flatMap((driver) => driver.connections())
    return [...new Map(counts.map((count) => [count.placement, count])).values()]
  }

  /** Placements whose server rejects the login of tenants' queries. */
  async rejectedLogins(): Promise<string[]> {
    const all = await Promise.all(this.drivers.map((driver) => driver.rejectedLogins?.() ?? []))
    return [...new Set(all.flat())]
  }

  /** The health check: fails while a server rejects the login of tenants' queries. */
  async checkLogins(): Promise<void> {
    const { length } = await this.rejectedLogins()
    if (length > 0)
      throw new CheckFailure(`login of tenants' queries refused by ${length} server${length === 1 ? '' : 's'}`)
  }

  get drivers(): readonly IsolationDriver[] {
    return [...this.#drivers.values()]
  }

  get defaultName(): string {
    return this.#default.name
  }

  get placements(): readonly string[] {
    return this.#placements
  }

  /** The driver by name. Throws `E_DEPENDENCY_UNAVAILABLE` if it is no longer configured. */
  driver(name: string): IsolationDriver {
    const driver = this.#drivers.get(name)
    if (!driver) throw DependencyUnavailable(`The isolation driver "${name}" is not configured in this process.`)
    return driver
  }

  /** Also true for a driver that is not configured in this process: another process may carry out the transfer. */
  supportsCopies(name: string): boolean {
    return this.#drivers.get(name)?.capabilities.copies ?? true
  }

  /** Throws `E_NOT_SUPPORTED`. */
  assertCopies(name: string): void {
    if (!this.supportsCopies(name)) throw copiesNotSupported(name)
  }

  /** Throws `E_NOT_SUPPORTED`, or a 400 if a tenant with this id cannot have storage of this driver. */
  assertFits(name: string, tenantId: string): void {
    this.assertCopies(name)
    if (this.#drivers.get(name)?.isTenantId?.(tenantId) === false) {
      throw invalid([
        { path: 'isolation', message: `cannot store "${tenantId}", which is no value of its tenant column` },
      ])
    }
  }

  /** Driver and placement of a new tenant; a 400 for an unknown driver or placement. */
  choose(isolation = this.#default.name, placement = 'main'): { driver: IsolationDriver; placement: string } {
    const driver = this.#drivers.get(isolation)
    const faults = []
    if (!driver) faults.push({ path: 'isolation', message: `must be one of ${[...this.#drivers.keys()].join(', ')}` })
    if (!this.#placements.includes(placement)) {
      faults.push({ path: 'placement', message: `must be one of ${this.#placements.join(', ')}` })
    }
    if (!driver || faults.length > 0) throw invalid(faults)
    return { driver, placement }
  }
}
