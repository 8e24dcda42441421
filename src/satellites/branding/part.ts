/** Declarations of branding. */
import { part } from '../../kernel/part.ts'
import type { Branding } from './branding.ts'

export const { operation, resource, on } = part<Branding>()
