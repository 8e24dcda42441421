import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { command } from './part.ts'

export const commands = [
  command({
    name: 'tenant:metrics:flush',
    summary: 'Store the counts of tenants now; also while services run',
    run: async (metrics, { terminal, signal }) => {
      const look = meter()
      const onProgress = (sums: number) => terminal.progress(`${number(sums)} sums${paceText(look(sums))}`)
      terminal.record({ ...(await metrics.flush(signal, onProgress)) })
    },
  }),
]
