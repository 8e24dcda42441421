/** Declarations of billing. */
import { part } from '../../kernel/part.ts'
import type { Billing } from './billing.ts'

export const { operation, command, job, on } = part<Billing>()
