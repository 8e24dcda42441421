/** Declarations of tenants. */
import { part } from '../kernel/part.ts'
import type { Tenants } from './tenants.ts'

export const { operation, resource, command, job } = part<Tenants>()
