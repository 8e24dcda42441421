/**
 * Closes storage that is open although its tenant is suspended or deleted, or has left it: after a server was
 * unavailable for longer than the retries of FenceTenant, or was restored from a backup.
 *
 * - Safe in several processes: a fence is set with the tenant's row locked, and setting it again has no effect.
 * - An unavailable server does not prevent checks of the others.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import type { Fences } from './fences.ts'
import type { Mismatch } from './mismatches.ts'
import type { StorageReconciliation } from './storage-reconciliation.ts'

type OpenLocation = Exclude<Mismatch, { kind: 'left over' }>
const isOpen = (one: Mismatch): one is OpenLocation => one.kind === 'open' || one.kind === 'former open'

export class OpenStorage {
  readonly #log: Kernel['log']
  readonly #reconciliation: StorageReconciliation
  readonly #fences: Fences

  constructor({ log }: Pick<Kernel, 'log'>, reconciliation: StorageReconciliation, fences: Fences) {
    this.#log = log
    this.#reconciliation = reconciliation
    this.#fences = fences
  }

  /** The hourly job. Throws permanent failures after all servers were checked. */
  async close(): Promise<void> {
    const failures: unknown[] = []
    const failed = (error: unknown, of: object, message: string) => {
      this.#log.warn({ err: error, ...of }, message)
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) failures.push(error)
    }
    for (const driver of this.#reconciliation.drivers.filter((one) => one.inventory)) {
      for (const placement of this.#reconciliation.placements) {
        const of = { isolation: driver.name, placement }
        let open: readonly OpenLocation[] = []
        try {
          open = await this.#open(driver, placement)
        } catch (error) {
          failed(error, of, 'could not list open storage of a server; retry in one hour')
        }
        for (const { kind, tenantId, locator } of open) {
          try {
            if (kind === 'open') await this.#fences.close(tenantId)
            else await this.#fences.closeFormer(tenantId, driver.name, placement, locator)
            this.#log.warn({ ...of, tenantId }, 'closed open storage of a tenant that must be closed')
          } catch (error) {
            failed(error, { ...of, tenantId }, 'could not close open storage; retry in one hour')
          }
        }
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  async #open(driver: IsolationDriver, placement: string): Promise<OpenLocation[]> {
    return (await Array.fromAsync(this.#reconciliation.mismatches(driver, placement))).filter(isOpen)
  }
}
