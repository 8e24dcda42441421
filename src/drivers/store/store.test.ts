/** Runs the suite of all stores on each store. */
import { inject } from 'vitest'
import { fakeClock } from '../../testing/base/clock.ts'
import { storeSuite } from '../../testing/store/suite.ts'
import { memoryStore } from './memory.ts'
import { openInPostgres } from './postgres.fixture.ts'
import { openInRedis } from './redis.fixture.ts'

await storeSuite('memory', async () => {
  const clock = fakeClock()
  return { store: memoryStore().open({ clock }), advance: clock.advance }
})

await storeSuite('postgres', openInPostgres)

await storeSuite('redis', () => openInRedis({ url: inject('redisUrl') }))
