/**
 * Sends thousands of random requests to the whole admin API: every response is one that openapi.json promises and never
 * an internal error, and the reported state of tenants follows from earlier responses. A failure prints its seed: set
 * `seed` and `path` in the options of `fc.assert` to repeat it.
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
/** Limit for shrinking a failure; a slower machine sends fewer requests. */
const LONGEST_MS = 120_000

/** Creating operations have a higher weight, because other requests need existing objects. */
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

test('random requests get only documented responses of the admin API', async () => {
  const requests = fc.array(fc.oneof(...described.map(weighted)), { minLength: 1, maxLength: STEPS, size: 'max' })
  await fc.assert(
    fc.asyncProperty(requests, (drawn) => walk(api, receiver.url, drawn)),
    { numRuns: WALKS, interruptAfterTimeLimit: LONGEST_MS },
  )
}, 300_000)
