/**
 * Storage that is open though its tenant is suspended or deleted, or has left it, closed again. A server that was away for longer than the job
 * FenceTenant tries, or was restored from a backup, has such; the storage reconciliation finds them.
 *
 * Any number of processes may do it at once: a fence is set with the tenant's row locked, and setting it again changes nothing. A
 * server that cannot be asked keeps nobody from looking at the others.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import type { Fences } from './fences.ts'
import type { Mismatch, StorageReconciliation } from './storage-reconciliation.ts'

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

  /** The hourly job. What is not only away for now is thrown, once everything has been looked at. */
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
          failed(error, of, 'a server could not be asked which storage is open; it is asked again in an hour')
        }
        for (const { kind, tenantId, locator } of open) {
          try {
            if (kind === 'open') await this.#fences.close(tenantId)
            else await this.#fences.closeFormer(tenantId, driver.name, placement, locator)
            this.#log.warn({ ...of, tenantId }, 'the storage of a tenant that is kept out was open; it is closed')
          } catch (error) {
            failed(error, { ...of, tenantId }, 'storage that is open could not be closed; it is tried again in an hour')
          }
        }
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  async #open(driver: IsolationDriver, placement: string): Promise<OpenLocation[]> {
    return (await this.#reconciliation.mismatches(driver, placement)).filter(isOpen)
  }
}
