/** Metrics of a tenant by day, for forecasts of other modules. */
import type { DailyAmounts } from '../../../console/module.ts'

const MAX_ROWS = 200

export const dailyAmounts: DailyAmounts<'metrics.list'> = {
  needs: ['metrics.list'],
  read: 'metrics.list',
  input: (id, days) => ({ params: { id }, query: { ...days, limit: MAX_ROWS } }),
  amountsOf: ({ data, nextCursor }) => ({ amounts: data, isComplete: nextCursor === null }),
}
