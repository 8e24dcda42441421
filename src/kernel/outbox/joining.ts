/**
 * Lets calls inside a tenant's transaction join it: they post an entry in the tenant's storage, which commits or is
 * rolled back with the tenant's rows. A transaction of the backoffice inside of it is left alone: its calls join that.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

/** The outbox of the tenant's transaction in progress. */
export interface JoinedOutbox {
  readonly tenantId: string
  /**
   * Posts an entry in the transaction. `E_INVALID_REQUEST` if it exceeds 256 KiB.
   * @param id UUID; entries of the tenant with one id are applied once. Default: a new one
   */
  post(kind: string, payload: object, id?: string): Promise<void>
}

const joined = new AsyncLocalStorage<JoinedOutbox | undefined>()

/**
 * The outbox that a call for this tenant must use; undefined outside of a transaction of this tenant.
 *
 * @example
 *   const outbox = joinedOutbox(tenantId)
 *   return outbox ? outbox.post('orders.add', { total }) : this.write(tenantId, total)
 */
export function joinedOutbox(tenantId: string | null): JoinedOutbox | undefined {
  const outbox = joined.getStore()
  return outbox?.tenantId === tenantId ? outbox : undefined
}

export const enterOutbox = <T>(outbox: JoinedOutbox, work: () => T): T => joined.run(outbox, work)

/** An AsyncLocalStorage for transactions of the backoffice: work in one does not join that of a tenant around it. */
export class TransactionFrames<Frame> {
  readonly #frames = new AsyncLocalStorage<Frame | undefined>()

  getStore(): Frame | undefined {
    return this.#frames.getStore()
  }

  run<T>(frame: Frame | undefined, work: () => T): T {
    return this.#frames.run(frame, () => joined.run(undefined, work))
  }
}
