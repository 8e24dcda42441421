/**
 * Thousands of requests that nobody thought of, over the whole admin API: whatever is sent, the answer is one that the
 * document promises and never a fault of ours, and what it says of a tenant follows from what was said before.
 *
 * A failure names its seed: put it into the options of `fc.assert` (`seed`, `path`) to walk the same way again.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, inject, test } from 'vitest'
import { type Opened, openApi } from './contract/api.ts'
import { type Described, described } from './contract/document.ts'
import { requestOf } from './random-walk/requests.ts'
import { walk } from './random-walk/walk.ts'
import { type Receiver, startReceiver } from './support/receiver.ts'

const WALKS = 250
const STEPS = 60
/** Enough to make a failure small; a machine that is slower than that walks less, and does not fail for it. */
const LONGEST_MS = 120_000

/** What is not there cannot be changed: so much is made. */
const weighted = (operation: Described) => ({
  weight: operation.method === 'POST' ? 6 : 1,
  arbitrary: requestOf(operation),
})

let api: Opened
let receiver: Receiver
beforeAll(async () => {
  receiver = await startReceiver(({ path }) => ({ status: Number(path.slice(1)) }))
  api = await openApi(inject('postgresUrl'))
})
afterAll(async () => {
  await api.end()
  await receiver.close()
})

test('walks through the admin API', async () => {
  const requests = fc.array(fc.oneof(...described.map(weighted)), { minLength: 1, maxLength: STEPS, size: 'max' })
  await fc.assert(
    fc.asyncProperty(requests, (drawn) => walk(api, receiver.url, drawn)),
    { numRuns: WALKS, interruptAfterTimeLimit: LONGEST_MS },
  )
}, 300_000)
