/**
 * Runs the contract cases of one part, and checks that each response of openapi.json, each event and each job has
 * occurred.
 *
 * - Cases are data: contract/tenants.ts, contract/backups.ts, contract/transfers.ts, and the coverage.fixture.ts of a satellite.
 * - Each part has its own test file and runner. parts.test.ts checks that the parts have cases for everything.
 * - The tests run in order: the last ones read the records of the runner.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DEFAULT_PREFIX } from '../../src/http/app.ts'
import { failedSignInsKey, MAX_FAILED_SIGN_INS } from '../../src/http/failed-sign-ins.ts'
import { entityTag } from '../../src/kernel/api/entity-tags.ts'
import { Idempotency } from '../../src/kernel/api/idempotency.ts'
import { fingerprint } from '../../src/kernel/crypto/crypto.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Api, type HttpResponse, TOKENS } from './calls.ts'
import { type Described, described } from './document.ts'
import { eventsOf, parts } from './parts.ts'
import type { Case, Names, Part, Row } from './row.ts'
import { catalogue, filled, type OpenRunner, openRunner, pathOf, play } from './runner.ts'
import { createRefusableRole, type RefusableRole } from './unavailable.ts'

const MEBIBYTE = 1024 * 1024
const TAKES_BODY = ['POST', 'PUT', 'PATCH']
const WAITING = { prefer: 'wait=30' }
const UNAVAILABLE = ['E_DEPENDENCY_UNAVAILABLE']
const TOO_LATE = 'E_DEADLINE_EXCEEDED'

/** Problem of a failed job, with the location of the resource. */
function expectFailure({ json, headers, text }: HttpResponse, code: string): void {
  expect(json, text).toMatchObject({ code })
  expect(headers.get('preference-applied')).toBe(WAITING.prefer)
  expect(headers.get('location')).toMatch(DEFAULT_PREFIX)
}

interface Subject {
  readonly name: string
  readonly operation: Described
  readonly row: Row
}

const rejection = (status: number, code: string) => ({ status, json: { code } })
const typeOf = ({ name }: Described) => catalogue.operations.find((one) => one.name === name) ?? expect.fail(name)
/** Whether the operation starts a job that a request may wait for. */
function isJob(operation: Described): boolean {
  const { status, settled } = typeOf(operation)
  return status === 202 && settled !== undefined
}
/** Status of a success; without waiting, if the operation starts a job. */
const successOf = (operation: Described) => (isJob(operation) ? 202 : Math.min(...operation.responses.keys()))

export function coverPart(part: Part): void {
  const subjects = Object.entries(part.operations).map(([name, row]): Subject => {
    const operation = described.find((one) => one.name === name) ?? expect.fail(`No operation "${name}"`)
    return { name, operation, row }
  })

  describe('the contract', { shuffle: false }, () => {
    let runner: OpenRunner
    /** One tenant for each operation that changes it, and one for all others. */
    const tenants = new Map<string, Names>()
    beforeAll(async () => {
      runner = await openRunner(inject('postgresUrl'))
      for (const { prepare } of parts) await prepare?.(runner)
      for (const { name, row, operation } of subjects) {
        const isRead = operation.method === 'GET'
        tenants.set(name, await (isRead ? runner.prepareUnchanged(row.success) : runner.prepare(row.success)))
      }
    })
    afterAll(() => runner?.end())

    const send = async (
      { operation }: Subject,
      one: Case,
      names: Names,
      { api = runner.api, ...sent }: Parameters<typeof play>[4] & { readonly api?: Api } = {},
    ) => {
      const response = await play(api, operation, one, names, sent)
      runner.coverageRecord.noteResponse(operation, response)
      return response
    }
    const namesOf = ({ name }: Subject) => tenants.get(name) ?? expect.fail(name)

    describe.each(subjects)('$name', (subject) => {
      const { operation, row } = subject
      const { success } = row
      const [parameter] = operation.parameters.filter((one) => one.in === 'path')

      test('rejects invalid input', async () => {
        expect(await send(subject, row.wrong, namesOf(subject))).toMatchObject(rejection(400, 'E_INVALID_REQUEST'))
      })

      if (parameter)
        test('returns 404 for an impossible path parameter', async () => {
          const params = { ...success.params, [parameter.name]: 'a\0b' }
          const response = await send(subject, { ...success, params }, namesOf(subject))
          expect(response).toMatchObject(rejection(404, 'E_NOT_FOUND'))
        })

      if (TAKES_BODY.includes(operation.method))
        test('rejects a body that is not JSON, too large, or of another media type', async () => {
          const names = namesOf(subject)
          const headers = { 'content-type': 'application/json' }
          expect(await send(subject, success, names, { body: '{' })).toMatchObject(rejection(400, 'E_INVALID_JSON'))
          const large = await send(subject, success, names, { body: 'x'.repeat(MEBIBYTE + 1), headers })
          expect(large).toMatchObject(rejection(413, 'E_PAYLOAD_TOO_LARGE'))
          const text = await send(subject, success, names, { body: '{}', headers: { 'content-type': 'text/plain' } })
          expect(text).toMatchObject(rejection(415, 'E_UNSUPPORTED_MEDIA_TYPE'))
        })

      test('rejects a request without a token, or with a token that does not permit it', async () => {
        const { scope } = typeOf(operation)
        const isRead = operation.method === 'GET'
        const names = namesOf(subject)
        expect(await send(subject, success, names, { who: 'anonymous' })).toMatchObject(
          rejection(401, 'E_UNAUTHORIZED'),
        )
        if (scope === 'any') return
        expect(await send(subject, success, names, { who: 'narrow' })).toMatchObject(rejection(403, 'E_FORBIDDEN'))
        if (!isRead) expect(await send(subject, success, names, { who: 'read' })).toMatchObject({ status: 403 })
        if (scope !== 'runtime')
          expect(await send(subject, success, names, { who: 'runtime' })).toMatchObject({ status: 403 })
      })

      test('rejects a wrong token from an address with too many failed sign-ins', async () => {
        const from = '203.0.113.20'
        const { store } = runner.api.tenancy.kernel
        await store.increment(null, failedSignInsKey(from), MAX_FAILED_SIGN_INS, 60)
        const wrong = { who: 'anonymous', from, headers: { 'x-admin-token': 'wrong-token-0123456789' } } as const
        const response = await send(subject, success, namesOf(subject), wrong)
        expect(response).toMatchObject(rejection(429, 'E_TOO_MANY_ATTEMPTS'))
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      })

      test('accepts a valid request after the rejected ones, with each token of a sufficient scope', async () => {
        const names = namesOf(subject)
        expect((await send(subject, success, names)).status).toBe(successOf(operation))
        if (operation.method === 'GET')
          expect((await send(subject, success, names, { who: 'read' })).status).toBe(successOf(operation))
        if (['runtime', 'any'].includes(typeOf(operation).scope ?? ''))
          expect((await send(subject, success, names, { who: 'runtime' })).status).toBe(successOf(operation))
      })

      const immediate = Object.entries(row.also ?? {}).filter(([, { waits }]) => waits === undefined)
      test.each(immediate)('returns %s as documented', async (promise, one) => {
        const api = one.plansOfHost ? await runner.plansOfHost() : runner.api
        const names = await (promise.startsWith('E_') ? runner.prepareUnchanged(one) : runner.prepare(one))
        const { status, json } = await send(subject, one, names, { api })
        expect([String(status), json?.code]).toContain(promise)
      })

      const cancelled = Object.entries(row.also ?? {}).filter(([, { waits }]) => waits === 'cancelled')
      test.each(cancelled)('returns %s to a request that waits for a job that is cancelled', async (promise, one) => {
        const names = await runner.prepare(one)
        const waiting = send(subject, one, names, { headers: WAITING })
        const { kernel, tenants } = runner.api.tenancy
        await eventually(async () => {
          const { rows } = await kernel.database.sql(
            `select id, tenant_id from multitenancy.transfers where $1 in (tenant_id, source_id) and state = 'pending'`,
            [names.id],
          )
          const [{ id, tenant_id }] = rows as [{ id: string; tenant_id: string }]
          await tenants.transfers.cancel(tenant_id, id)
        })
        expectFailure(await waiting, promise)
      })

      if (operation.parameters.some(({ name }) => name === 'If-Match'))
        test('changes only the state whose tag If-Match names, once for any number of requests', async () => {
          const names = await runner.prepare(success)
          const sendIf = (ifMatch: string) => send(subject, success, names, { headers: { 'if-match': ifMatch } })
          const refused = await sendIf('"of another state"')
          expect(refused).toMatchObject(rejection(412, 'E_CHANGED_MEANWHILE'))
          const tag = refused.headers.get('etag') ?? expect.fail('no ETag')
          expect(entityTag(JSON.stringify(refused.json.current))).toBe(tag)
          expect(await sendIf(`W/${tag}`)).toMatchObject(rejection(412, 'E_CHANGED_MEANWHILE'))

          const all = await Promise.all(Array.from({ length: 3 }, () => sendIf(`"another", ${tag}`)))
          const [done, ...others] = all.toSorted((one, other) => one.status - other.status)
          expect(done?.status, done?.text).toBe(successOf(operation))
          // A deleted resource cannot be compared.
          const refusals = done?.text === '' ? ['E_CHANGED_MEANWHILE', 'E_WEBHOOK_NOT_FOUND'] : ['E_CHANGED_MEANWHILE']
          expect(others.filter(({ json }) => !refusals.includes(json.code))).toEqual([])
          if (done?.text !== '') expect(others[0]?.headers.get('etag')).toBe(done?.headers.get('etag'))
        })
      else if (operation.method !== 'GET')
        test('rejects If-Match for a resource without a state', async () => {
          const response = await send(subject, success, namesOf(subject), { headers: { 'if-match': '*' } })
          expect(response).toMatchObject({
            ...rejection(400, 'E_INVALID_REQUEST'),
            json: { errors: [{ path: 'If-Match' }] },
          })
        })

      if (operation.method === 'POST')
        test('runs once for an Idempotency-Key', async () => {
          const names = await runner.prepare(success)
          const body = JSON.stringify(filled(success.body ?? {}, names))
          const sendKeyed = (key: string, body: string) => {
            const headers = { 'content-type': 'application/json', 'idempotency-key': `${names.id}-${key}` }
            return send(subject, success, names, { body, headers })
          }
          const first = await sendKeyed('one', body)
          expect(first.status).toBe(successOf(operation))
          const repeated = await sendKeyed('one', body)
          if (operation.shownOnce.length === 0) expect(repeated.text).toBe(first.text)
          const shown = Object.entries(first.json ?? {}).filter(([name]) => !operation.shownOnce.includes(name))
          expect(repeated.json ?? {}).toEqual(Object.fromEntries(shown))
          expect(await sendKeyed('one', `${body} `)).toMatchObject(rejection(409, 'E_IDEMPOTENCY_MISMATCH'))
          await runner.api.tenancy.kernel.database.sql(
            `update multitenancy.idempotency_keys set response = 'of a removed key' where response is not null`,
          )
          expect(await sendKeyed('one', body)).toMatchObject(rejection(409, 'E_IDEMPOTENCY_RESPONSE_LOST'))

          // Another process holds the key while it runs the same request.
          const path = DEFAULT_PREFIX + pathOf(operation, success, names)
          const scope = [fingerprint(TOKENS.admin), 'POST', path, `${names.id}-two`]
          await new Idempotency(runner.api.tenancy.kernel).begin(scope, body, 3_600_000)
          expect(await sendKeyed('two', body)).toMatchObject(rejection(409, 'E_IDEMPOTENCY_IN_PROGRESS'))
        })
    })

    describe('a deadline in the past', () => {
      let api: Api
      beforeAll(async () => {
        api = await runner.open({}, { deadlineSeconds: 0 })
        return () => api.tenancy.stop()
      })

      const limited = subjects.filter(({ operation }) => operation.responses.get(503)?.includes(TOO_LATE))
      test.each(limited)('$name returns 503', async (subject) => {
        const response = await send(subject, subject.row.success, namesOf(subject), { api })
        expect(response).toMatchObject({ status: 503, json: { code: TOO_LATE, outcome: 'not_committed' } })
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      })
    })

    describe('an unavailable database', () => {
      let role: RefusableRole
      let api: Api
      beforeAll(async () => {
        role = await createRefusableRole(runner.url)
        api = await runner.open({ database: { url: role.url }, health: { critical: ['backoffice'] } })
        await role.refuse()
        return async () => {
          await role.admit()
          await api.tenancy.stop()
          await role.drop()
        }
      })

      test.each(subjects.filter(({ row }) => !row.needsNoDatabase))('$name returns 503', async (subject) => {
        const { status, headers, json } = await send(subject, subject.row.success, namesOf(subject), { api })
        expect(status).toBe(503)
        // openapi.json promises a problem, or for a health report the report itself.
        const [code] = subject.operation.responses.get(503) ?? []
        expect(json.code).toBe(code)
        if (code) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
      })

      const served = subjects.filter(({ row }) => row.needsNoDatabase)
      test.each(served)('$name succeeds without a query', async (subject) => {
        const { status } = await send(subject, subject.row.success, namesOf(subject), { api })
        expect(status).toBe(successOf(subject.operation))
      })
    })

    const needsWorker = part.jobs !== undefined || subjects.some(({ operation }) => isJob(operation))
    if (needsWorker)
      describe('with a worker', () => {
        let worker: Api
        beforeAll(async () => {
          // The tenants are installed: a worker would only check each of them again.
          await runner.api.tenancy.kernel.database.sql(
            `delete from multitenancy_jobs.job where name = 'tenantry.InstallTenant'`,
          )
          worker = await runner.open({ role: 'all' })
          return () => worker.tenancy.stop()
        })

        test.each(subjects.filter(({ operation }) => isJob(operation)))(
          '$name returns 200 to a request that waits for the job',
          async (subject) => {
            const { success } = subject.row
            const response = await send(subject, success, await runner.prepare(success), {
              api: worker,
              headers: WAITING,
            })
            expect(response.status).toBe(200)
            expect(response.headers.get('preference-applied')).toBe(WAITING.prefer)
          },
        )

        const failing = subjects.flatMap((subject) =>
          Object.entries(subject.row.also ?? {}).flatMap(([promise, one]) =>
            one.waits === true ? [{ name: subject.name, promise, subject, one }] : [],
          ),
        )
        test.each(failing)(
          '$name returns $promise to a request that waits for the job',
          async ({ promise, subject, one }) => {
            const names = await runner.prepare(one)
            expectFailure(await send(subject, one, names, { api: worker, headers: WAITING }), promise)
          },
        )

        test.each(Object.entries(part.jobs ?? {}))('the job %s completes', async (name, { data, ...one }) => {
          const type = catalogue.jobs.find((job) => job.name === name) ?? expect.fail(`No job "${name}"`)
          const { jobs } = worker.tenancy.kernel
          const completed = async () => {
            const ofType = (await jobs.counts()).filter(({ queue }) => queue === `tenantry.${name}`)
            return ofType.reduce((sum, { completed }) => sum + completed, 0)
          }
          const names = await runner.prepare(one)
          const before = await completed()
          await jobs.send(type, filled(data, names))
          await eventually(async () => expect(await completed()).toBeGreaterThan(before))
        })
      })

    test.for(Object.entries(part.scenes ?? {}))('%s', async ([, scene]) => {
      await scene(runner)
    })

    test.each(subjects)('$name has returned every documented response', ({ operation, row }) => {
      expect(runner.coverageRecord.unseen(operation)).toEqual(row.needsNoDatabase ? UNAVAILABLE : [])
    })

    test('every event of the part was published', async () => {
      await eventually(() =>
        expect([...runner.coverageRecord.events]).toEqual(expect.arrayContaining([...eventsOf(part)])),
      )
    })

    test('every part accepts the final state of the runner', async () => {
      const ofOthers = new Set(parts.filter((one) => one !== part).flatMap(eventsOf))
      for (const { ending } of parts) await ending?.(runner, (event) => !ofOthers.has(event))
    })
  })
}
