import { expect, test } from 'vitest'
import { noteNames } from '../../kernel/jobs/queue-registry.ts'
import { useRunners } from './runners.fixture.ts'
import { sideBySide } from './upkeep.fixture.ts'

const runners = useRunners()
const { all, kept } = sideBySide(runners)

test('a stalled process that has noted its queues does not block other processes from starting', async () => {
  const { database } = runners
  const [noted, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const frozen = database.transaction(async () => {
    await noteNames(database, { queues: ['tenantry.Special'], schedules: [] })
    noted.resolve()
    await goOn.promise
  })
  await noted.promise
  await all()
  await kept()
  goOn.resolve()
  await expect(frozen).rejects.toThrow()
})
