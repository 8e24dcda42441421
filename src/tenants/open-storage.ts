/**
 * Storage that is open though its tenant is suspended or deleted, closed again. A server that was away for longer than the job
 * FenceTenant tries, or was restored from a backup, has such; the inventory says which.
 *
 * Any number of processes may do it at once: a fence is set with the tenant's row locked, and setting it again changes nothing. A
 * server that cannot be asked keeps nobody from looking at the others.
 */
import { isDatabaseUnavailable } from '../kernel/database.ts'
import { DependencyUnavailable } from '../kernel/errors.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Fences } from './fences.ts'
import type { Inventory } from './inventory.ts'
import type { IsolationDriver } from './isolation.ts'

export class OpenStorage {
  readonly #log: Kernel['log']
  readonly #inventory: Inventory
  readonly #fences: Fences

  constructor({ log }: Pick<Kernel, 'log'>, inventory: Inventory, fences: Fences) {
    this.#log = log
    this.#inventory = inventory
    this.#fences = fences
  }

  /** The hourly job. What is not only away for now is thrown, once everything has been looked at. */
  async close(): Promise<void> {
    const failures: unknown[] = []
    const failed = (error: unknown, of: object, message: string) => {
      this.#log.warn({ err: error, ...of }, message)
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) failures.push(error)
    }
    for (const driver of this.#inventory.drivers.filter((one) => one.inventory)) {
      for (const placement of this.#inventory.placements) {
        const of = { isolation: driver.name, placement }
        let open: readonly string[] = []
        try {
          open = await this.#open(driver, placement)
        } catch (error) {
          failed(error, of, 'a server could not be asked which storage is open; it is asked again in an hour')
        }
        for (const tenantId of open) {
          try {
            await this.#fences.close(tenantId)
            this.#log.warn({ ...of, tenantId }, 'the storage of a tenant that is kept out was open; it is closed')
          } catch (error) {
            failed(error, { ...of, tenantId }, 'storage that is open could not be closed; it is tried again in an hour')
          }
        }
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  async #open(driver: IsolationDriver, placement: string): Promise<string[]> {
    const found = await this.#inventory.mismatches(driver, placement)
    return found.flatMap((one) => (one.kind === 'open' ? [one.tenantId] : []))
  }
}
