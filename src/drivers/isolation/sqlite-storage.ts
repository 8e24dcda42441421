/**
 * The storage of one tenant: its database, whose turn it is, and its fence.
 *
 *   take ─► nobody has it ──────────────────────────────► taken ─► give ─► the one that has waited longest
 *        ─► else waits, bounded in number and time ─► taken | E_TENANT_CONNECTION_LIMIT
 *
 * Who has taken it has it alone: a statement for as long as it runs, a transaction until it ends.
 */
import { TenantNotReady } from '../../tenants/errors.ts'
import { type ConnectionLimits, StorageFenced } from '../../tenants/isolation.ts'
import { type Sqlite, SqliteDatabase } from './sqlite-database.ts'
import { Turns } from './turns.ts'

const RETRY_AFTER_SECONDS = 5

/** The tenant's rows are not here, and only its owner knows whether they may be lost: nothing is made up in their place. */
export const storageMissing = () =>
  TenantNotReady(
    'The storage of the tenant was in the memory of another process, or of one that has ended, and is not here. ' +
      'Create the tenant anew, or keep tenants with a driver that is durable.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  )

export class SqliteStorage {
  readonly placement: string
  readonly database: SqliteDatabase
  isFenced = false
  readonly #turns: Turns<{ readonly tenantId: string }, void>
  readonly #tenantId: string
  #isTaken = false
  #isGone = false
  #given: (() => void) | undefined

  constructor(
    sqlite: Sqlite,
    { tenantId, placement }: { tenantId: string; placement: string },
    limits: ConnectionLimits,
  ) {
    this.placement = placement
    this.database = new SqliteDatabase(sqlite)
    this.#tenantId = tenantId
    this.#turns = new Turns(limits)
  }

  get isTaken(): boolean {
    return this.#isTaken
  }

  get waiting(): number {
    return this.#turns.size
  }

  /** @param waitMs default: that of the limits. */
  async take(waitMs?: number): Promise<void> {
    if (this.#isGone) throw storageMissing()
    if (this.#isTaken) return this.#turns.wait({ tenantId: this.#tenantId }, waitMs)
    this.#isTaken = true
  }

  give(): void {
    const next = this.#turns.first(() => true)
    if (next) {
      this.#turns.take(next)
      next.resolve()
      return
    }
    this.#isTaken = false
    this.#given?.()
  }

  refuseIfFenced(): void {
    if (this.isFenced) throw StorageFenced('The storage of the tenant is closed.')
  }

  /** Ends it when its turn has come; whoever waits then finds it gone. */
  async drop(): Promise<void> {
    try {
      await this.take()
    } catch (error) {
      if (this.#isGone) return
      throw error
    }
    this.#isTaken = false
    this.#end(storageMissing())
  }

  /** Refuses whoever waits, and ends it when the one that has it gives it back. */
  async close(): Promise<void> {
    if (this.#isGone) return
    this.#isGone = true
    const closed = new Error('the connections are closed')
    this.#turns.refuseAll(closed)
    if (this.#isTaken) {
      await new Promise<void>((resolve) => {
        this.#given = resolve
      })
    }
    this.#end(closed)
  }

  #end(error: Error): void {
    this.#isGone = true
    this.#turns.refuseAll(error)
    this.database.close()
  }
}
