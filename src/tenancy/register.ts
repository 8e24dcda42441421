/** The definition of a program, for the types of requests of frameworks with global request types (Express, Fastify). */
import type { Tenant } from '../tenants/handles/handle.ts'

/**
 * Declare the definition of your program once. Then `request.tenant` has its tables and names.
 *
 * @example
 *   declare module 'tenantry' {
 *     interface Register {
 *       tenancy: typeof definition
 *     }
 *   }
 */
// biome-ignore lint/suspicious/noEmptyInterface: the host adds the member
export interface Register {}

/** The tenant of the registered definition; of any tables and names without one. */
export type RegisteredTenant = Register extends {
  readonly tenancy: { readonly types?: { readonly tenant: infer Registered extends Tenant } }
}
  ? Registered
  : Tenant
