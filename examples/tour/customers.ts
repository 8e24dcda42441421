/** The customers of the tour, as a host has them before they are tenants. */
import customers from './tenants.json' with { type: 'json' }

export interface Customer {
  /** The body of `POST /tenants`. */
  readonly tenant: { readonly id?: string; readonly name: string }
  /** Titles of rows of its own. */
  readonly notes: readonly string[]
}

const all: readonly Customer[] = customers

export { all as customers }
