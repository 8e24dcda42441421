/**
 * The contract, enumerated: whatever the catalogue has is seen here at least once, and whatever the document promises happens.
 * The cases are data: of the tenants in contract/tenants.ts, of a satellite in the coverage.fixture.ts of its folder. What has
 * no case fails, and so does a case of nothing.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DEFAULT_PREFIX } from '../src/http/app.ts'
import { fingerprint } from '../src/kernel/crypto.ts'
import { Idempotency } from '../src/kernel/idempotency.ts'
import { eventually } from '../src/testing/tenancy.ts'
import { type Api, TOKENS } from './contract/calls.ts'
import { runCommand } from './contract/command-line.ts'
import { type Described, described } from './contract/document.ts'
import { ledger } from './contract/ledger.ts'
import { merged, parts } from './contract/parts.ts'
import { type Relay, relayTo } from './contract/relay.ts'
import type { Case, Names, Row } from './contract/row.ts'
import { catalogue, filled, type OpenStage, openStage, pathOf, play } from './contract/stage.ts'

const MEBIBYTE = 1024 * 1024
const TAKES_BODY = ['POST', 'PUT', 'PATCH']

const rows = merged('operations')
const operations = described.map((operation) => ({ operation, name: operation.name }))

let stage: OpenStage
beforeAll(async () => {
  stage = await openStage(inject('postgresUrl'))
  for (const { beginning } of parts) await beginning?.(stage)
})
afterAll(() => stage.end())

const rowOf = ({ name }: Described): Row => rows[name] ?? expect.fail(`${name} has no row`)
/** Of an action that runs as a job, the answer that does not wait for it. */
const successOf = (operation: Described) => (isJob(operation) ? 202 : Math.min(...operation.answers.keys()))
function isJob({ name }: Described): boolean {
  const { status, settled } = catalogue.operations.find((one) => one.name === name) ?? expect.fail()
  return status === 202 && settled !== undefined
}
const act = async (operation: Described, one: Case, sent: Parameters<typeof play>[4] = {}) =>
  play(one.plansOfHost ? stage.plansOfHost : stage.api, operation, one, await stage.prepare(one), sent)

test('everything has a case, and every case is of something', () => {
  const names = (all: readonly { name: string }[]) => all.map(({ name }) => name).sort()
  expect(Object.keys(rows).sort()).toEqual(names(catalogue.operations))
  expect(Object.keys(merged('jobs')).sort()).toEqual(names(catalogue.jobs))
  expect(Object.keys(merged('commands')).sort()).toEqual(names(stage.api.tenancy.commands.map(({ what }) => what)))
})

describe.each(operations)('$name', ({ operation }) => {
  const [parameter] = operation.parameters.filter((one) => one.in === 'path')
  const refusal = (status: number, code: string) => ({ status, json: { code } })

  test('does what is asked', async () => {
    const { success } = rowOf(operation)
    expect((await act(operation, success)).status).toBe(successOf(operation))
  })

  test('refuses wrong input', async () => {
    expect(await act(operation, rowOf(operation).wrong)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
  })

  test('asks for a token, and for one that may', async () => {
    const { success } = rowOf(operation)
    const { status } = await act(operation, success, { who: 'read' })
    expect(status).toBe(operation.method === 'GET' ? successOf(operation) : 403)
    const { scope } = catalogue.operations.find(({ name }) => name === operation.name) ?? expect.fail()
    const forServers = await act(operation, success, { who: 'runtime' })
    expect(forServers.status).toBe(scope === 'runtime' ? successOf(operation) : 403)
    expect(await act(operation, success, { who: 'nobody' })).toMatchObject(refusal(401, 'E_UNAUTHORIZED'))
  })

  test('answers whatever else the document promises of it', async () => {
    for (const [promise, one] of Object.entries(rowOf(operation).also ?? {})) {
      const { status, json } = await act(operation, one)
      expect([String(status), json?.code]).toContain(promise)
    }
  })

  if (parameter)
    test('finds nothing at a path that cannot be', async () => {
      const { success } = rowOf(operation)
      const params = { ...success.params, [parameter.name]: 'a\0b' }
      expect(await act(operation, { ...success, params })).toMatchObject(refusal(404, 'E_NOT_FOUND'))
    })

  if (TAKES_BODY.includes(operation.method))
    test('reads JSON of a reasonable size and nothing else', async () => {
      const { success } = rowOf(operation)
      const json = { 'content-type': 'application/json' }
      expect(await act(operation, success, { body: '{' })).toMatchObject(refusal(400, 'E_INVALID_JSON'))
      const large = await act(operation, success, { body: 'x'.repeat(MEBIBYTE + 1), headers: json })
      expect(large).toMatchObject(refusal(413, 'E_PAYLOAD_TOO_LARGE'))
      const text = await act(operation, success, { body: '{}', headers: { 'content-type': 'text/plain' } })
      expect(text).toMatchObject(refusal(415, 'E_UNSUPPORTED_MEDIA_TYPE'))
    })

  if (operation.method === 'POST')
    test('is done once for one Idempotency-Key', async () => {
      const { success } = rowOf(operation)
      const names = await stage.prepare(success)
      const body = JSON.stringify(filled(success.body ?? {}, names))
      const send = (name: string, body: string) => {
        const headers = { 'content-type': 'application/json', 'idempotency-key': `${names.id}-${name}` }
        return play(stage.api, operation, success, names, { body, headers })
      }
      const first = await send('one', body)
      expect(first.status).toBe(successOf(operation))
      expect((await send('one', body)).text).toBe(first.text)
      expect(await send('one', `${body} `)).toMatchObject(refusal(409, 'E_IDEMPOTENCY_MISMATCH'))

      // As another process holds it while it runs the same request.
      const { database, secrets } = stage.api.tenancy.kernel
      const path = DEFAULT_PREFIX + pathOf(operation, success, names)
      const scope = [fingerprint(TOKENS.admin), 'POST', path, `${names.id}-two`]
      const lease = await new Idempotency(database, secrets).begin(scope, body)
      expect(await send('two', body)).toMatchObject(refusal(409, 'E_IDEMPOTENCY_IN_PROGRESS'))
      if ('keep' in lease) lease.end()
    })
})

describe('while the database is away', () => {
  let relay: Relay
  let away: Api
  const prepared = new Map<string, Names>()
  beforeAll(async () => {
    relay = await relayTo(stage.url)
    away = await stage.open({ database: { url: relay.url } })
    away.tenancy.health.register('backoffice', () => away.tenancy.kernel.database.ping())
    for (const { name } of described) prepared.set(name, await stage.prepare(rows[name]?.success ?? {}))
    await relay.cut()
  })
  afterAll(() => relay.mend())

  test.each(operations)('$name says so, or needs no database', async ({ operation }) => {
    const { success } = rowOf(operation)
    const answer = await play(away, operation, success, prepared.get(operation.name) ?? {})
    if (answer.status === 503 && answer.json.code) {
      expect(answer.json.code).toBe('E_DEPENDENCY_UNAVAILABLE')
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    } else if (answer.status !== 503) {
      expect(answer.status).toBe(successOf(operation))
      ledger.note(operation, '503', 'E_DEPENDENCY_UNAVAILABLE')
    }
  })
})

describe('beside the operations', () => {
  let worker: Api
  beforeAll(async () => {
    worker = await stage.open({ role: 'all' })
  })

  test.each(operations.filter(({ operation }) => isJob(operation)))(
    '$name is answered when its job is done, to who waits',
    async ({ operation }) => {
      const { success } = rowOf(operation)
      const sent = { headers: { prefer: 'wait=30' } }
      expect((await play(worker, operation, success, await stage.prepare(success), sent)).status).toBe(200)
    },
  )

  test.each(Object.entries(merged('commands')))('the command %s runs', async (name, { line, isEndless, ...one }) => {
    const words = [name, ...filled(line, await stage.prepare(one))]
    const printed = await runCommand(worker.tenancy, words, { isEndless })
    expect(printed).not.toEqual([])
  })

  test.each(Object.entries(merged('jobs')))('the job %s runs', async (name, { data, ...one }) => {
    const type = catalogue.jobs.find((job) => job.name === name) ?? expect.fail(`there is no job ${name}`)
    const completed = async () => {
      const counts = await worker.tenancy.kernel.jobs.counts()
      const ofType = counts.filter(({ queue }) => queue === `tenantry.${name}`)
      return ofType.reduce((sum, { completed }) => sum + completed, 0)
    }
    const names = await stage.prepare(one)
    const before = await completed()
    await worker.tenancy.kernel.jobs.send(type, filled(data, names))
    await eventually(async () => expect(await completed()).toBeGreaterThan(before))
  })

  test.each(Object.entries(merged('scenes')))('%s', async (_words, scene) => {
    await scene(stage)
  })

  test('every series has samples after a scrape', async () => {
    const { tenancy, http } = worker
    const scrape = async () => (await http.fetch(new Request('http://localhost/metrics'))).text()
    await worker.call('GET', '/tenants')
    const text = await scrape()
    for (const name of tenancy.series.names) {
      expect(text).toMatch(new RegExp(`^# HELP ${name} .+\n# TYPE ${name} (gauge|counter|histogram)\n${name}`, 'm'))
    }
  })
})

describe('at the end', () => {
  test.each(operations)('everything that the document promises of $name has happened', ({ operation }) => {
    expect(ledger.unseen(operation)).toEqual([])
  })

  test('every event has been published', async () => {
    const names = catalogue.events.map(({ name }) => name)
    await eventually(() => expect(names.filter((name) => !ledger.events.has(name))).toEqual([]))
  })

  test('every part says that it is well', async () => {
    for (const { ending } of parts) await ending?.(stage)
  })
})
