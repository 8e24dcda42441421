/**
 * How parts take part in the erasure of a tenant: each names the systems that store data of tenants, as data with functions of its
 * service. tenants/erasure searches each system, removes the data, and searches again for the report.
 */

/** The tenant, and the choices of the request. */
export interface ErasureSubject {
  readonly tenantId: string
  /** Whether the payment provider keeps the customer: invoices have legal retention. */
  readonly billing: 'keep' | 'delete'
  /** Those that the first search of the system has found. */
  readonly references: readonly string[]
}

/** Data of one kind that a search has found. */
export interface FoundData {
  /** `objects`, `keys`, the name of a table. */
  readonly kind: string
  readonly count: number
  /** Why it may remain after the removal. Absent: the erasure is not complete while it exists. */
  readonly kept?: string
  /** Names that a later search needs after the rows are deleted. They are deleted when the erasure is completed. */
  readonly references?: readonly string[]
}

/** A copy that no process removes; it ends with its retention. */
export interface ExpiringData {
  readonly what: string
  /** Null: the retention is not known to Tenantry. */
  readonly at: Date | null
}

/** One system with data of tenants. */
export interface ErasableSystem<Service = any> {
  /** Name in the report: `archives`. */
  readonly name: string
  /** Searches the system itself, not a list of written data. Rejects if the system is unavailable. */
  readonly find: (service: Service, subject: ErasureSubject) => Promise<readonly FoundData[]>
  /** Removes what `find` returns. Safe to repeat, also concurrently. Absent: it is removed with the rows. */
  readonly remove?: (service: Service, subject: ErasureSubject) => Promise<void>
  /** Whether its removal follows that of the rows in the backoffice. Default: it comes first, because it may need them. */
  readonly isAfterRows?: boolean
  /** Tables with a column `tenant_id` that this system handles: the search of all other tables leaves them out. */
  readonly tables?: readonly string[]
  readonly expires?: (service: Service, now: Date) => readonly ExpiringData[]
}

/** What a part declares for erasures. */
export interface Erasable<Service = any> {
  readonly systems?: readonly ErasableSystem<Service>[]
  /** Signs reports with a key that outlives the application key. Returns hexadecimal digits. */
  readonly sign?: (service: Service, text: string) => Promise<string>
}

/** Names the unavailable server or service that an erasure waits for. */
export class SystemUnavailable extends Error {
  override readonly name = 'SystemUnavailable'
  /** `placement "eu-1"` */
  readonly system: string

  constructor(system: string, cause: unknown) {
    super(`${system} is unavailable`, { cause })
    this.system = system
  }
}

/** Runs `work`; an error names `system`. */
export async function inSystem<T>(system: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof SystemUnavailable ? error : new SystemUnavailable(system, error)
  }
}
