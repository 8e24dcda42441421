import { command } from '../../kernel/commands.ts'
import { meter, paceText } from '../../kernel/pace.ts'
import { number } from '../../kernel/quantities.ts'
import type { TenantMetrics } from './metrics.ts'

export const commands = [
  command<TenantMetrics>({
    name: 'tenant:metrics:flush',
    summary: 'Write down now what was counted of tenants; beside running services, too',
    run: async (metrics, { terminal, signal }) => {
      const look = meter()
      const onProgress = (sums: number) => terminal.progress(`${number(sums)} sums${paceText(look(sums))}`)
      terminal.record({ ...(await metrics.flush(signal, onProgress)) })
    },
  }),
]
