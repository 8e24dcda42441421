/**
 * Simulates processes of two releases on one queue: one knows the types `Common` and `Special`, the other only
 * `Common`.
 */
import { expect } from 'vitest'
import { type Runners, type } from './runners.fixture.ts'

export const Common = type('Common')
export const Special = type('Special')
export const BOTH = [Common, Special].map((one) => ({ type: one, cron: '0 3 * * *' }))
export const EVERYTHING = [
  { name: 'tenantry.Common', cron: '0 3 * * *' },
  { name: 'tenantry.Special', cron: '0 3 * * *' },
]

export function sideBySide({ start, rows, countsOf }: Pick<Runners, 'start' | 'rows' | 'countsOf'>) {
  const scheduled = () => rows('select name, cron from multitenancy_jobs.schedule order by name')
  const lettersIn = (queue: string) =>
    rows(`select source_name, source_retry_count, data, group_id, source_created_on < created_on as later
      from multitenancy_jobs.job where name = '${queue}' order by source_name, (data->>'n')::int`)
  return {
    scheduled,
    lettersIn,
    /** Starts a process that knows both types, and leaves the jobs that it sends waiting. */
    async all() {
      const runner = await start([Common, Special], { Common: async () => undefined }, BOTH)
      await runner.send(Special, { n: 1 })
      await runner.send(Special, { n: 2 }, { afterSeconds: 600 })
      return runner
    },
    /** Asserts that no process has removed a schedule or a job of another process. */
    async kept(): Promise<void> {
      expect(await scheduled()).toEqual(EVERYTHING)
      expect(await countsOf(Special)).toMatchObject([{ waiting: 1, delayed: 1 }])
      expect(await lettersIn('tenantry.dead-letter')).toEqual([])
    },
  }
}
