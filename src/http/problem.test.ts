import { expect, test } from 'vitest'
import { DependencyUnavailable, NotFound, TenancyError } from '../kernel/base/errors.ts'
import { createLogger } from '../kernel/base/logger.ts'
import { withProblemResponse } from './problem.ts'

async function respondTo(error: unknown, describe?: (error: TenancyError) => TenancyError) {
  const lines: string[] = []
  const log = createLogger({ write: (line) => lines.push(line) })
  const response = await withProblemResponse(log, () => Promise.reject(error), describe)
  const entries = lines.map((line) => JSON.parse(line)).map(({ level, msg, err }) => [level, msg, err.message])
  return { response, body: await response.json(), entries }
}

test('the problem of an unexpected error hides its text, and the log has it', async () => {
  const { response, body, entries } = await respondTo(new Error('password in a statement'))
  expect(response.status).toBe(500)
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(body).toMatchObject({ code: 'E_INTERNAL', title: 'Internal error' })
  expect(JSON.stringify(body)).not.toContain('password')
  expect(entries).toEqual([[50, 'a request failed', 'password in a statement']])
})

test('an error of the caller is not logged', async () => {
  const { response, body, entries } = await respondTo(NotFound('The plan "x" does not exist.'))
  expect(response.status).toBe(404)
  expect(body).toMatchObject({ code: 'E_NOT_FOUND', detail: 'The plan "x" does not exist.' })
  expect(entries).toEqual([])
})

test('an unavailable dependency is logged as a warning, and the problem has Retry-After', async () => {
  const { response, entries } = await respondTo(DependencyUnavailable('The store is unavailable.'))
  expect(response.status).toBe(503)
  expect(response.headers.get('retry-after')).toBe('5')
  expect(entries).toEqual([[40, 'The store is unavailable.', 'The store is unavailable.']])
})

test('the members of a protocol are in the problem of an unexpected error, too', async () => {
  const describe = (error: TenancyError) => new TenancyError(error, error.message, { extras: { errorCode: 'GENERAL' } })
  expect((await respondTo(new Error('broken'), describe)).body).toMatchObject({
    code: 'E_INTERNAL',
    errorCode: 'GENERAL',
  })
})
