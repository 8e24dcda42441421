/** Declarations of webhooks. */
import { part } from '../../kernel/part.ts'
import type { Webhooks } from './webhooks.ts'

export const { operation, resource, command, job, on, onAny } = part<Webhooks>()
