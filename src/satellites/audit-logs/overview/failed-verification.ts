/** Keeps the last failed verification in the store, until a verification of the same entries succeeds. */
import { z } from 'zod'
import type { Kernel } from '../../../kernel/kernel.ts'

interface Verified {
  readonly ok: boolean
  readonly broken: readonly { readonly tenantId: string | null }[]
}

const KEY = 'audit-verification'
const MAX_TENANTS = 100

const Failed = z.object({
  at: z.coerce.date(),
  problems: z.int(),
  /** Whether it was a verification of one tenant. */
  isOfTenant: z.boolean(),
  /** Tenants with problems, the first hundred. */
  tenants: z.array(z.string()),
})
type FailedVerification = z.output<typeof Failed>

export class FailedVerifications {
  readonly #kernel: Pick<Kernel, 'store' | 'clock' | 'log'>

  constructor(kernel: Pick<Kernel, 'store' | 'clock' | 'log'>) {
    this.#kernel = kernel
  }

  async latest(): Promise<FailedVerification | null> {
    const stored = await this.#kernel.store.get(null, KEY)
    return stored === null ? null : Failed.parse(JSON.parse(stored))
  }

  /** The result of a verification does not depend on the store. @param tenantId undefined: of all entries */
  async keep({ ok, broken }: Verified, tenantId?: string): Promise<void> {
    const { store, clock, log } = this.#kernel
    try {
      if (!ok) {
        const tenants = [...new Set(broken.flatMap(({ tenantId }) => tenantId ?? []))].slice(0, MAX_TENANTS)
        const failed = { at: clock.now(), problems: broken.length, isOfTenant: tenantId !== undefined, tenants }
        await store.set(null, KEY, JSON.stringify(failed))
      } else if (tenantId === undefined || (await this.#isOnlyOf(tenantId))) {
        await store.delete(null, KEY)
      }
    } catch (error) {
      log.warn({ err: error }, 'the result of an audit log verification could not be stored')
    }
  }

  async #isOnlyOf(tenantId: string): Promise<boolean> {
    const failed = await this.latest()
    return failed?.isOfTenant === true && failed.tenants.every((one) => one === tenantId)
  }
}
