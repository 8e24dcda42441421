/** Findings of the doctor about partitions, and their fixes. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DAY_MS, endAll, type Opened, sharedOpened } from './queue/partitions.fixture.ts'
import { activeTenant } from './webhooks-api.fixture.ts'

const opened = sharedOpened()
let open: Opened
beforeEach(async () => {
  open = await opened()
})
afterEach(endAll)

const checks = async () =>
  (await open.tenancy.doctor.examine()).checks.filter(({ name }) => name.startsWith('webhooks'))
const fix = () => open.tenancy.doctor.fix({ approve: async () => true })
const codes = async () => (await checks()).map(({ code, fixable }) => ({ code, fixable }))

test('the doctor creates missing partitions and moves rows of the default partition', async () => {
  open.clock.set(new Date(open.first + 29 * DAY_MS - 1))
  expect(await codes()).toEqual([])
  open.clock.advance(1)
  expect(await codes()).toEqual([{ code: 'webhooks.partition-missing', fixable: true }])
  open.clock.set(new Date(open.first + 31 * DAY_MS))
  const { webhooks } = open.tenancy
  const id = await activeTenant(open.tenancy)
  await webhooks.create(id, { url: 'https://example.com/', events: ['*'] })
  await webhooks.dispatch(id, 'order.paid', {})
  expect(await codes()).toEqual([
    { code: 'webhooks.partition-missing', fixable: true },
    { code: 'webhooks.unpartitioned', fixable: true },
  ])
  const { checks, fixes } = await fix()
  expect(checks).toEqual([])
  expect(fixes).toMatchObject([
    { isDone: true, outcome: 'Created 3 partitions, dropped 0.' },
    { isDone: true, outcome: 'Created 0 partitions, dropped 0.' },
  ])
})

test('the doctor drops partitions past their retention', async () => {
  const trims = await open.another()
  open.clock.set(new Date(open.first + 39 * DAY_MS))
  await trims.webhooks.partitions.keep()
  open.clock.set(new Date(open.first + 41 * DAY_MS - 1))
  expect(await codes()).toEqual([])
  open.clock.advance(1)
  expect(await checks()).toMatchObject([
    {
      code: 'webhooks.not-trimmed',
      message: expect.stringContaining(new Date(open.first + 10 * DAY_MS).toISOString()),
    },
  ])
  expect(await fix()).toMatchObject({ checks: [], fixes: [{ isDone: true }] })
})
