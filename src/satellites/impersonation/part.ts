/** Declarations of impersonation. */
import { part } from '../../kernel/part.ts'
import type { Impersonations } from './impersonation.ts'

export const { operation, command, on } = part<Impersonations>()
