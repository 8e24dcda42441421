import { command } from '../../kernel/commands.ts'
import type { TenantMetrics } from './metrics.ts'

export const commands = [
  command<TenantMetrics>({
    name: 'tenant:metrics:flush',
    summary: 'Write down now what was counted of tenants; beside running services, too',
    run: async (metrics, { terminal, signal }) => terminal.record({ ...(await metrics.flush(signal)) }),
  }),
]
