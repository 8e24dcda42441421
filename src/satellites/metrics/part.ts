/** Declarations of metrics. */
import { part } from '../../kernel/part.ts'
import type { TenantMetrics } from './metrics.ts'

export const { operation, command, job } = part<TenantMetrics>()
