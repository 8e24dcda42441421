import { describe, expect, test } from 'vitest'
import { DependencyUnavailable } from '../base/errors.ts'
import { createLogger } from '../base/logger.ts'
import { CHECK_TIMEOUT_MS, type Check, CheckFailure, createHealth } from './health.ts'

const pass: Check = () => undefined
const fail: Check = () => {
  throw new Error('broken')
}
const never: Check = () => new Promise(() => {})

const healthOf = (checks: Record<string, Check>, critical: string[] = [], timeoutMs = CHECK_TIMEOUT_MS) => {
  const health = createHealth({ critical, timeoutMs })
  for (const [name, check] of Object.entries(checks)) health.register(name, check)
  return health
}

describe('the aggregate', () => {
  test.each<[string, Record<string, Check>, string[], string]>([
    ['there are no checks', {}, [], 'ok'],
    ['there are no checks, but a critical name', {}, ['database'], 'ok'],
    ['the only check passes', { database: pass }, [], 'ok'],
    ['all pass', { database: pass, store: pass }, ['database'], 'ok'],
    ['one of two checks fails', { database: pass, store: fail }, [], 'degraded'],
    ['a check that is not critical fails', { database: pass, store: fail }, ['database'], 'degraded'],
    ['a critical check fails', { database: fail, store: pass }, ['database'], 'fail'],
    ['the only check fails', { store: fail }, [], 'fail'],
    ['all fail', { database: fail, store: fail }, [], 'fail'],
  ])('when %s', async (_, checks, critical, status) => {
    expect(await healthOf(checks, critical).report()).toMatchObject({ status })
  })
})

test('the report of a draining process fails, with the results of its checks', async () => {
  const health = healthOf({ database: pass, store: fail })
  health.startDrain()
  const { status, checks } = await health.report()
  expect(status).toBe('fail')
  expect(checks).toMatchObject({
    database: { status: 'pass' },
    store: { status: 'fail' },
    drain: { status: 'fail', durationMs: 0, message: 'the process is stopping' },
  })
})

describe('a check', () => {
  test('passes with or without a message', async () => {
    const { checks } = await healthOf({ quiet: pass, talks: async () => '3 queues' }).report()
    expect(checks).toEqual({
      quiet: { status: 'pass', durationMs: expect.any(Number) },
      talks: { status: 'pass', durationMs: expect.any(Number), message: '3 queues' },
    })
  })

  test('returns a result with its status and a message', async () => {
    const health = healthOf({
      good: () => ({ status: 'pass' }),
      queues: async () => ({ status: 'pass', message: '3 queues' }),
      disk: async () => ({ status: 'fail', message: 'disk full' }),
      bare: () => ({ status: 'fail' }),
    })
    const { status, checks } = await health.report()
    expect(status).toBe('degraded')
    expect(checks).toEqual({
      good: { status: 'pass', durationMs: expect.any(Number) },
      queues: { status: 'pass', durationMs: expect.any(Number), message: '3 queues' },
      disk: { status: 'fail', durationMs: expect.any(Number), message: 'disk full' },
      bare: { status: 'fail', durationMs: expect.any(Number), message: 'unavailable' },
    })
  })

  test.each([{ status: 'failed' }, { status: 503 }, {}])('with an unknown status fails: %j', async (returned: any) => {
    expect(await healthOf({ odd: () => returned }).report()).toMatchObject({ status: 'fail' })
  })

  test('without a response fails and delays no other check', async () => {
    const { status, checks } = await healthOf({ slow: never, quick: pass }, [], 10).report()
    expect(status).toBe('degraded')
    expect(checks.slow).toMatchObject({ status: 'fail', message: 'timeout after 10 ms' })
    expect(checks.quick?.status).toBe('pass')
  })

  test('that fails after its timeout has no effect', async () => {
    const late = Promise.withResolvers<void>()
    const { checks } = await healthOf({ late: () => late.promise }, [], 1).report()
    late.reject(new Error('too late'))
    expect(checks.late).toMatchObject({ message: 'timeout after 1 ms' })
  })

  test('replaces an earlier check of the same name', async () => {
    const health = healthOf({ database: fail })
    health.register('database', pass)
    expect(await health.report()).toMatchObject({ status: 'ok', checks: { database: { status: 'pass' } } })
  })

  test('may have any name', async () => {
    const health = createHealth()
    health.register('__proto__', fail)
    const { status, checks } = await health.report()
    expect(status).toBe('fail')
    expect(Object.keys(checks)).toEqual(['__proto__'])
  })
})

test('the log has the full text of each change of a check, and no entry for other probes', async () => {
  const lines: { level: number; msg: string; check: string; reason?: string }[] = []
  const log = createLogger({ write: (line) => void lines.push(JSON.parse(line)) })
  const health = createHealth({ log })
  const logged = () => lines.splice(0).map(({ level, msg, check, reason }) => [level, msg, check, reason])
  let fault: Error | undefined
  health.register('store', () => {
    if (fault) throw fault
  })
  health.register('backoffice', pass)
  const probed = async (now: Error | undefined) => {
    fault = now
    for (const detailed of [false, true, false]) await health.report({ detailed })
    return logged()
  }
  const refused = (text: string) =>
    new AggregateError([new Error(text), Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })])

  expect(await probed(undefined)).toEqual([])
  expect(await probed(refused('db.internal:5432'))).toEqual([
    [40, 'a health check fails', 'store', 'db.internal:5432; refused'],
  ])
  expect(await probed(refused('db.internal:5433'))).toEqual([]) // a number alone is no other failure
  expect(await probed(refused('db-two.internal:5433'))).toEqual([
    [40, 'a health check fails', 'store', 'db-two.internal:5433; refused'],
  ])
  expect(await probed(refused('db.internal:5432'))).toEqual([]) // reasons of an unresponsive dependency alternate
  expect(await probed(undefined)).toEqual([[30, 'a health check passes again', 'store', undefined]])
  expect(await probed(undefined)).toEqual([])
})

describe('the message of a failure', () => {
  const SECRET = 'postgres://admin:hunter2@db.internal:5432/acme'
  const coded = (code: string, cause?: unknown) => Object.assign(new Error(SECRET, { cause }), { code })
  const thrown = (error: unknown) => healthOf({ database: () => Promise.reject(error) })

  test.each<[string, unknown, string]>([
    ['the port has no listener', coded('ECONNREFUSED'), 'connection refused'],
    ['several addresses refuse', new AggregateError([coded('ECONNREFUSED'), coded('ETIMEDOUT')]), 'connection refused'],
    ['a name is unknown', coded('ENOTFOUND'), 'host not found'],
    ['a password is wrong', coded('28P01'), 'authentication failed'],
    ['the server restarts', coded('57P03'), 'server is starting up'],
    ['the database is read-only', coded('25006'), 'database is read-only'],
    ['the disk is full', DependencyUnavailable(SECRET, { cause: coded('53100') }), 'disk is full'],
    ['the error is wrapped', DependencyUnavailable(SECRET, { cause: coded('ECONNRESET') }), 'connection reset'],
    ['the cause has a known code', new TypeError(SECRET, { cause: coded('ECONNREFUSED') }), 'connection refused'],
    ['only the cause of a coded error has a known code', coded('E_ACME', coded('ENOTFOUND')), 'host not found'],
    ['a connection ends', new Error('Connection terminated unexpectedly'), 'connection reset'],
    ['a connection takes too long', new Error('timeout exceeded when trying to connect'), 'timeout'],
    ['the error is wrapped without a cause', DependencyUnavailable(SECRET), 'unavailable'],
    ['the code is unknown', coded('E_ACME'), 'unavailable'],
    ['the code is empty', coded(''), 'unavailable'],
    ['the code is the name of an inherited property', coded('constructor'), 'unavailable'],
    ['the error has no code', new Error(SECRET), 'unavailable'],
    ['an aggregate is empty', new AggregateError([]), 'unavailable'],
    ['a string is thrown', SECRET, 'unavailable'],
    ['undefined is thrown', undefined, 'unavailable'],
    ['the error is a CheckFailure', new CheckFailure('3 of 4 workers are gone'), '3 of 4 workers are gone'],
  ])('when %s', async (_, error, message) => {
    const report = await thrown(error).report()
    expect(report.checks.database?.message).toBe(message)
    expect(JSON.stringify(report)).not.toMatch(/hunter2|internal|acme/i)
  })

  test('is the text of the error in a detailed report', async () => {
    const report = await thrown(new AggregateError([coded('ECONNREFUSED'), new TypeError()])).report({ detailed: true })
    expect(report.checks.database?.message).toBe(`${SECRET}; TypeError`)
  })
})
