import { command } from '../../kernel/api/commands.ts'
import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
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
