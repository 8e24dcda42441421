/**
 * Starts the programs of docs/receiving-webhooks.md, in examples/webhook-receiver, and sends signed requests to them.
 */
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { uuidv7 } from '../src/kernel/base/ids.ts'
import { newSecret } from '../src/satellites/webhooks/signature/secret.ts'
import { signatureHeaders } from '../src/satellites/webhooks/signature/signing.ts'
import { type Example, startExample } from './example-program.fixture.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const ROOT = join(import.meta.dirname, '..')
const PROGRAMS = ['node', 'express'] as const
const [SECRET, BEFORE] = [newSecret(), 'a-secret-that-came-before']

interface Sent {
  readonly id?: string
  /** Signed payload, sent unless `body` differs. */
  readonly payload?: unknown
  readonly body?: string
  readonly secrets?: readonly string[]
  readonly secondsAgo?: number
  readonly without?: string
}

let directory: string
let receiver: Example
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-receiver-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))
afterEach(() => void receiver?.child.kill('SIGKILL'))

describe.each(PROGRAMS)('examples/webhook-receiver/%s.ts', (program) => {
  beforeEach(async () => {
    receiver = await start(program)
  })

  test('the guide shows the source of the program', async () => {
    const guide = await readFile(join(ROOT, 'docs/receiving-webhooks.md'), 'utf8')
    expect(guide).toContain(`\`\`\`ts\n${await readFile(source(program), 'utf8')}\`\`\``)
  })

  test('the receiver processes a signed delivery once, even if it is sent repeatedly', async () => {
    const [id, payload] = [uuidv7(), { tenantId: 'acme', name: 'Zoë \u2028 用户' }]
    expect(await Promise.all([send({ id, payload }), send({ id, payload })])).toEqual([204, 204])
    expect(await send({ id, payload, secondsAgo: 200 })).toBe(204)
    expect(await send({ payload: 'last' })).toBe(204)
    await waitForOutput('last')
    expect(receiver.output().split(`tenant.activated ${JSON.stringify(payload)}\n`)).toHaveLength(2)
  })

  test('the receiver accepts deliveries during a rotation of the secret, in either order', async () => {
    for (const secrets of [[BEFORE], [SECRET, BEFORE], [newSecret(), SECRET], [SECRET]]) {
      expect(await send({ secrets })).toBe(204)
    }
  })

  test.each<[string, Sent]>([
    ['that is signed with another secret', { secrets: [newSecret()] }],
    ['with changed content', { body: '{"tenantId":"globex"}' }],
    ['with a reformatted body', { payload: { a: 1, b: 2 }, body: '{ "a": 1, "b": 2 }' }],
    ['with an empty body', { body: '' }],
    ['that is six minutes old', { secondsAgo: 360 }],
    ['from six minutes ahead', { secondsAgo: -360 }],
    ['without an id', { without: 'webhook-id' }],
    ['without a time', { without: 'webhook-timestamp' }],
    ['without a signature', { without: 'webhook-signature' }],
  ])('the receiver rejects a delivery %s', async (_words, request) => {
    expect(await send(request)).toBe(401)
    expect(await send({ payload: 'valid' })).toBe(204)
    await waitForOutput('valid')
    expect(receiver.output().match(/^tenant\.activated/gm)).toHaveLength(1)
  })

  test('the receiver accepts a large delivery, and rejects one above its limit', async () => {
    expect(await send({ payload: 'x'.repeat(1_000_000) })).toBe(204)
    expect(await send({ payload: 'x'.repeat(1_100_000) })).toBe(413)
    expect(await send({})).toBe(204)
  })

  test('the receiver exits on SIGTERM', async () => {
    receiver.child.kill('SIGTERM')
    if (receiver.child.exitCode === null) await once(receiver.child, 'exit')
    expect(receiver.child).toMatchObject({ exitCode: 0, signalCode: null })
  })
})

test('a delivery that the node receiver has acknowledged survives a kill, and so does its completion', async () => {
  const database = join(directory, `${uuidv7()}.db`)
  const ids = Array.from({ length: 50 }, () => uuidv7())
  receiver = await start('node', database)
  for (const id of ids) expect(await send({ id, payload: id })).toBe(204)
  receiver.child.kill('SIGKILL')
  await once(receiver.child, 'exit')
  const before = receiver.output()

  receiver = await start('node', database)
  for (const id of ids) expect(await send({ id, payload: id })).toBe(204)
  expect(await send({ payload: 'the last one' })).toBe(204)
  await waitForOutput('the last one')
  const times = ids.map((id) => (before + receiver.output()).split(`"${id}"`).length - 1)
  // At least once: the process may be killed between the work and its record.
  expect(times.every((count) => count === 1 || count === 2)).toBe(true)
  expect(times.filter((count) => count === 2).length).toBeLessThanOrEqual(1)
})

const source = (program: string) => join(ROOT, 'examples/webhook-receiver', `${program}.ts`)

const waitForOutput = (payload: string) =>
  vi.waitUntil(() => receiver.output().includes(`tenant.activated "${payload}"\n`), { timeout: 10_000 })

/** Returns the status. */
async function send(request: Sent): Promise<number> {
  const { id = uuidv7(), payload = { tenantId: 'acme' }, secrets = [SECRET], secondsAgo = 0 } = request
  const signed = JSON.stringify(payload)
  const timestampSeconds = Math.floor(Date.now() / 1000) - secondsAgo
  const headers = new Headers({
    'content-type': 'application/json',
    'x-webhook-event': 'tenant.activated',
    'x-delivery-id': id,
    ...signatureHeaders({ deliveryId: id, timestampSeconds, body: signed, secrets }),
  })
  if (request.without) headers.delete(request.without)
  const response = await fetch(`${receiver.url}/webhooks`, { method: 'POST', headers, body: request.body ?? signed })
  await response.body?.cancel()
  return response.status
}

const start = (program: string, database = ':memory:'): Promise<Example> =>
  startExample(`webhook-receiver/${program}.ts`, {
    WEBHOOK_SECRETS: `${SECRET} ${BEFORE}`,
    WEBHOOK_DATABASE: database,
  })
