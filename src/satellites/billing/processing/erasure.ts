/** The customer of a tenant at the payment provider, for its erasure. */
import type { ErasableSystem, ErasureSubject } from '../../../kernel/erasable.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import { PaymentError, type Payments } from '../model/provider.ts'
import type { TenantDeletion } from './tenant-deletion.ts'

const DAY_MS = 86_400_000
const KEPT = 'The request keeps the customer at the payment provider: invoices have legal retention.'
const WITHOUT_RECORD =
  'The backoffice has no record of the customer: another installation may use the account of the payment provider. Check it, and delete it there.'
const OF_ANOTHER = 'The configured account of the payment provider does not know the customer.'

interface BillingService {
  readonly tenantDeletion: TenantDeletion
  readonly dependencies: BillingDependencies
}

/** @param retentionDays of received events */
export const providerSystem = (retentionDays = 0): ErasableSystem<BillingService> => ({
  name: 'payment provider',
  async find(billing, subject) {
    const { payments } = billing.dependencies
    const [customers, ofAnother]: [string[], string[]] = [[], []]
    for (const id of await customersOf(billing, subject)) {
      const exists = await isKnown(payments, id)
      if (exists === undefined) ofAnother.push(id)
      else if (exists) customers.push(id)
    }
    const others = await othersOf(billing, subject)
    const kept = subject.billing === 'keep' ? { kept: KEPT } : {}
    return [
      { kind: 'customers', count: customers.length, references: customers, ...kept },
      { kind: 'unknown customers', count: ofAnother.length, references: ofAnother, kept: OF_ANOTHER },
      { kind: 'customers without a record', count: others.length, kept: WITHOUT_RECORD },
    ]
  },
  async remove(billing, subject) {
    const { payments } = billing.dependencies
    for (const id of await customersOf(billing, subject)) {
      if ((await isKnown(payments, id)) !== true) continue
      await billing.tenantDeletion.endSubscriptions(id)
      if (subject.billing === 'delete') await payments.deleteCustomer(id)
    }
  },
  expires: (_, now) => [
    {
      what: 'Events of the payment provider that arrive later, without personal data',
      at: new Date(now.getTime() + retentionDays * DAY_MS),
    },
  ],
})

/** Those of the tenant's rows, also at the time of the first search. */
async function customersOf({ tenantDeletion }: BillingService, subject: ErasureSubject): Promise<Set<string>> {
  return new Set([...subject.references, ...(await tenantDeletion.customersOf(subject.tenantId))])
}

/** Customers that the provider finds by the tenant's id alone: several installations may use one account. */
async function othersOf(billing: BillingService, subject: ErasureSubject): Promise<string[]> {
  const known = await customersOf(billing, subject)
  const found = await Array.fromAsync(billing.dependencies.payments.customersOf(subject.tenantId))
  return found.filter((id) => !known.has(id))
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
