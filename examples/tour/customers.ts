/** Customers of the tour before they become tenants. */
import customers from './tenants.json' with { type: 'json' }

export interface Customer {
  /** Body of `POST /tenants`. */
  readonly tenant: { readonly id?: string; readonly name: string }
  /** Titles of the customer's notes. */
  readonly notes: readonly string[]
}

const all: readonly Customer[] = customers

export { all as customers }
