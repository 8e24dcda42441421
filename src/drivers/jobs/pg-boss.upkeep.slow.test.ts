import { expect, test } from 'vitest'
import { noteNames } from '../../kernel/job-names.ts'
import { type, useRunners } from './runners.fixture.ts'

const runners = useRunners()

test('a stalled process that has noted its queues does not block others from starting', async () => {
  const [Common, Special] = [type('Common'), type('Special')]
  const schedule = [Common, Special].map((one) => ({ type: one, cron: '0 3 * * *' }))
  const { database } = runners
  const [noted, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const frozen = database.transaction(async () => {
    await noteNames(database, { queues: ['tenantry.Special'], schedules: [] })
    noted.resolve()
    await goOn.promise
  })
  await noted.promise
  await runners.start([Common, Special], { Common: async () => undefined }, schedule)
  expect(await runners.rows('select name from multitenancy_jobs.schedule order by name')).toEqual([
    { name: 'tenantry.Common' },
    { name: 'tenantry.Special' },
  ])
  goOn.resolve()
  await expect(frozen).rejects.toThrow()
})
