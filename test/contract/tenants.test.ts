import { coverPart } from './coverage.ts'
import { tenants } from './tenants.ts'

coverPart(tenants)
