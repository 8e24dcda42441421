/**
 * One operation of the leak fuzzer, by one worker in one tenant's storage. Only this worker writes its rows, so it
 * knows their values; it records every violation.
 */

import { TenancyError } from '../../kernel/base/errors.ts'
import { sqlState } from '../../kernel/database/database.ts'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { ImportSource } from '../../tenants/handles/router.ts'
import type { StorageLocation } from '../../tenants/isolation/driver.ts'
import type { Random } from '../base/seeded-random.ts'
import { markOf, type StorageView } from '../base/subject.ts'

/** Rows of one worker in one tenant's `items`: values by id. */
export type OwnRows = Map<number, number>

export const ROWS_PER_WORKER = 8

export interface Violation {
  readonly operation: string
  readonly tenantId: string
  readonly what: string
}

/** A tenant with the handle that all workers share. */
export interface FuzzedTenant {
  readonly handle: StorageHandle
  readonly source: ImportSource
  readonly location: StorageLocation
  readonly view: StorageView | undefined
  /** By worker. */
  readonly rows: readonly OwnRows[]
}

export interface FuzzStepOptions {
  readonly operation: string
  readonly worker: number
  readonly random: Random
  readonly tenant: FuzzedTenant
  readonly others: readonly FuzzedTenant[]
  readonly note: (violation: Violation) => void
}

export class FuzzStep {
  readonly random: Random
  readonly tenant: FuzzedTenant
  readonly handle: StorageHandle
  readonly mark: string
  readonly rows: OwnRows
  readonly #options: FuzzStepOptions
  static #made = 0
  /** Unique in the run: for names of cursors, locks and other objects. */
  readonly number: number

  constructor(options: FuzzStepOptions) {
    this.#options = options
    this.random = options.random
    this.tenant = options.tenant
    this.handle = options.tenant.handle
    this.mark = markOf(options.tenant.location.tenantId)
    const rows = options.tenant.rows[options.worker]
    if (!rows) throw new Error(`worker ${options.worker} does not exist`)
    this.rows = rows
    this.number = ++FuzzStep.#made
  }

  get other(): FuzzedTenant {
    return this.random.pick(this.#options.others)
  }

  /** Id that only this worker writes; all tenants have the same ids. */
  id(): number {
    return this.#options.worker * ROWS_PER_WORKER + this.random.below(ROWS_PER_WORKER)
  }

  value(): number {
    return this.random.below(1_000)
  }

  isMine(id: number): boolean {
    return Math.floor(id / ROWS_PER_WORKER) === this.#options.worker
  }

  violate(what: string): void {
    this.#options.note({ operation: this.#options.operation, tenantId: this.handle.id, what })
  }

  /** Checks that every row belongs to this tenant, and returns the rows. */
  see(rows: readonly any[]): readonly any[] {
    for (const row of rows) {
      if (row.owner !== this.mark) this.violate(`a row of another tenant was returned: ${JSON.stringify(row)}`)
    }
    return rows
  }

  /** Compares a result that contains all rows of this worker with the values that it has written. */
  compare(rows: readonly any[]): void {
    const found = new Map(
      this.see(rows)
        .filter(({ id }) => this.isMine(id))
        .map(({ id, value }) => [id, value]),
    )
    const isSame = found.size === this.rows.size && [...this.rows].every(([id, value]) => found.get(id) === value)
    if (!isSame) this.violate(`rows are ${JSON.stringify([...found])}, expected ${JSON.stringify([...this.rows])}`)
  }

  /** Asserts that the work fails with one of these SQLSTATEs, error codes or texts. */
  async rejected(work: Promise<unknown>, ...reasons: readonly (string | RegExp)[]): Promise<void> {
    let result: unknown
    try {
      result = await work
    } catch (error) {
      if (reasons.length === 0 || reasons.some((reason) => isFor(error, reason))) return
      this.violate(`rejected for another reason than ${reasons.join(', ')}: ${describeError(error)}`)
      return
    }
    this.violate(`not rejected; the result is ${JSON.stringify(result)?.slice(0, 200)}`)
  }
}

const isFor = (error: unknown, reason: string | RegExp): boolean =>
  typeof reason === 'string' ? codeOf(error) === reason : reason.test(String(error))

const codeOf = (error: unknown): string | undefined =>
  sqlState(error) ?? (error instanceof TenancyError ? error.code : (error as { code?: string } | undefined)?.code)

export const describeError = (error: unknown): string => `${codeOf(error) ?? ''} ${error}`.trim()
