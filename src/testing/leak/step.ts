/**
 * One operation of the leak fuzzer: a worker, for a moment in one tenant's storage. It knows what this worker has written there,
 * as no other worker writes the same rows, and notes whatever should not have been seen.
 */

import { TenancyError } from '../../kernel/base/errors.ts'
import { sqlState } from '../../kernel/database/database.ts'
import type { TenantHandle } from '../../tenants/handles/handle.ts'
import type { ImportSource } from '../../tenants/handles/router.ts'
import type { StorageLocation } from '../../tenants/isolation/driver.ts'
import type { Random } from '../base/seeded-random.ts'
import { markOf, type StorageView } from '../base/subject.ts'

/** Rows of one worker in one tenant's `items`: their value by id. */
export type OwnRows = Map<number, number>

export const ROWS_PER_WORKER = 8

export interface Violation {
  readonly operation: string
  readonly tenantId: string
  readonly what: string
}

/** A tenant as all workers use it: one handle, shared. */
export interface FuzzedTenant {
  readonly handle: TenantHandle
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
  readonly handle: TenantHandle
  readonly mark: string
  readonly rows: OwnRows
  readonly #options: FuzzStepOptions
  static #made = 0
  /** Of this step only: for names of cursors, locks and whatever else. */
  readonly number: number

  constructor(options: FuzzStepOptions) {
    this.#options = options
    this.random = options.random
    this.tenant = options.tenant
    this.handle = options.tenant.handle
    this.mark = markOf(options.tenant.location.tenantId)
    const rows = options.tenant.rows[options.worker]
    if (!rows) throw new Error(`there is no worker ${options.worker}`)
    this.rows = rows
    this.number = ++FuzzStep.#made
  }

  get other(): FuzzedTenant {
    return this.random.pick(this.#options.others)
  }

  /** An id that only this worker writes; every tenant has the same ones. */
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

  /** Rows of an answer: every one must be this tenant's. */
  see(rows: readonly any[]): readonly any[] {
    for (const row of rows) {
      if (row.owner !== this.mark) this.violate(`a foreign row was answered: ${JSON.stringify(row)}`)
    }
    return rows
  }

  /** Rows of an answer that has all of this worker's rows: they must be what it wrote. */
  compare(rows: readonly any[]): void {
    const found = new Map(
      this.see(rows)
        .filter(({ id }) => this.isMine(id))
        .map(({ id, value }) => [id, value]),
    )
    const isSame = found.size === this.rows.size && [...this.rows].every(([id, value]) => found.get(id) === value)
    if (!isSame) this.violate(`rows are ${JSON.stringify([...found])}, should be ${JSON.stringify([...this.rows])}`)
  }

  /** Work that must fail, with one of these SQLSTATEs, error codes or texts. */
  async rejected(work: Promise<unknown>, ...reasons: readonly (string | RegExp)[]): Promise<void> {
    let result: unknown
    try {
      result = await work
    } catch (error) {
      if (reasons.length === 0 || reasons.some((reason) => isFor(error, reason))) return
      this.violate(`refused for another reason than ${reasons.join(', ')}: ${describeError(error)}`)
      return
    }
    this.violate(`not refused, answered ${JSON.stringify(result)?.slice(0, 200)}`)
  }
}

const isFor = (error: unknown, reason: string | RegExp): boolean =>
  typeof reason === 'string' ? codeOf(error) === reason : reason.test(String(error))

const codeOf = (error: unknown): string | undefined =>
  sqlState(error) ?? (error instanceof TenancyError ? error.code : (error as { code?: string } | undefined)?.code)

export const describeError = (error: unknown): string => `${codeOf(error) ?? ''} ${error}`.trim()
