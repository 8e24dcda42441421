/** Registers the definition of the type tests for requests of Express, Fastify and Koa. */
import type { definition } from './tenancy.ts'

declare module 'tenantry' {
  interface Register {
    tenancy: typeof definition
  }
}
