/** Console module of metrics: usage of one tenant, and over all. */
import { defineConsoleModule } from '../../../console/module.ts'
import { dailyAmounts } from './daily-amounts.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'metrics',
  screens: [
    {
      path: '/usage',
      title: text.usage,
      needs: ['metrics.sums', 'metrics.listAll'],
      search: 'metrics.sums',
      navigation: { icon: 'usage', order: 50 },
      key: 'u',
      view: () => import('./all.tsx'),
    },
  ],
  tabs: [
    {
      path: 'usage',
      title: text.usage,
      needs: ['metrics.sums', 'metrics.list'],
      search: 'metrics.sums',
      order: 50,
      view: () => import('./tenant.tsx'),
    },
  ],
  dailyAmounts,
  cards: [{ needs: ['metrics.sums'], order: 20, view: () => import('./card.tsx') }],
})
