/** Fixes of the doctor while another session has a lock. */
import { expect, inject, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../testing/base/clock.ts'
import { firstDayOf } from './queue/partitions.fixture.ts'
import { openWebhooks } from './webhooks.fixture.ts'

const DAY_MS = 86_400_000

test('the doctor reports partitions as not fixed while another session locks them', async () => {
  const clock = fakeClock()
  const { tenancy, end } = await openWebhooks(inject('postgresUrl'), {}, { clock, role: 'api' })
  onTestFinished(end)
  const fix = () => tenancy.doctor.fix({ approve: async () => true })
  clock.set(new Date((await firstDayOf(tenancy)) + 31 * DAY_MS))
  const [isReading, isFinished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const reading = tenancy.kernel.database.session(async (client) => {
    await client.query('begin; select from multitenancy.webhook_attempts')
    isReading.resolve()
    await isFinished.promise
  })
  await isReading.promise
  const { checks, fixes } = await fix() // it tries for seconds
  isFinished.resolve()
  await reading
  expect(checks).toMatchObject([{ code: 'webhooks.partition-missing' }])
  expect(fixes).toMatchObject([{ isDone: false, outcome: expect.stringMatching('locked by another session') }])
  expect(await fix()).toMatchObject({ checks: [], fixes: [{ isDone: true }] })
})
