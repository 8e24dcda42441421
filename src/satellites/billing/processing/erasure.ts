/** The customer of a tenant at the payment provider, for its erasure. */
import type { ErasableSystem, FoundData } from '../../../kernel/erasable.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import { PaymentError, type Payments } from '../model/provider.ts'
import type { TenantDeletion } from './tenant-deletion.ts'

const DAY_MS = 86_400_000
const KEPT = 'The request keeps the customer at the payment provider: invoices have legal retention.'
const OF_ANOTHER = 'The configured account of the payment provider does not know the customer.'

interface BillingService {
  readonly tenantDeletion: TenantDeletion
  readonly dependencies: BillingDependencies
}

/** @param retentionDays of received events */
export const providerSystem = (retentionDays = 0): ErasableSystem<BillingService> => ({
  name: 'payment provider',
  async find(billing, { tenantId, billing: choice }) {
    const { payments } = billing.dependencies
    let [customers, ofAnother] = [0, 0]
    for (const id of await customersOf(billing, tenantId)) {
      const exists = await isKnown(payments, id)
      if (exists === undefined) ofAnother += 1
      else if (exists) customers += 1
    }
    const found: FoundData = { kind: 'customers', count: customers, ...(choice === 'keep' ? { kept: KEPT } : {}) }
    return ofAnother === 0 ? [found] : [found, { kind: 'unknown customers', count: ofAnother, kept: OF_ANOTHER }]
  },
  async remove(billing, { tenantId, billing: choice }) {
    const { payments } = billing.dependencies
    for (const id of await customersOf(billing, tenantId)) {
      if ((await isKnown(payments, id)) !== true) continue
      await billing.tenantDeletion.endSubscriptions(id)
      if (choice === 'delete') await payments.deleteCustomer(id)
    }
  },
  expires: (_, now) => [
    {
      what: 'Events of the payment provider that arrive later, without personal data',
      at: new Date(now.getTime() + retentionDays * DAY_MS),
    },
  ],
})

/** Those of the tenant's rows, and those that the provider finds by the tenant's id. */
async function customersOf({ tenantDeletion, dependencies }: BillingService, tenantId: string): Promise<Set<string>> {
  const ids = new Set(await tenantDeletion.customersOf(tenantId))
  for await (const id of dependencies.payments.customersOf(tenantId)) ids.add(id)
  return ids
}

/** False: it is deleted. Undefined: a customer of another account. */
async function isKnown(payments: Payments, customerId: string): Promise<boolean | undefined> {
  try {
    return await payments.hasCustomer(customerId)
  } catch (error) {
    if (error instanceof PaymentError && error.code === 'customer_not_found') return undefined
    throw error
  }
}
