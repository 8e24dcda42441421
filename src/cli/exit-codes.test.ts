import pg from 'pg'
import { expect, test } from 'vitest'
import { Forbidden, Unauthorized } from '../http/problem.ts'
import { DependencyUnavailable, defineError, InvalidRequest, NotFound } from '../kernel/base/errors.ts'
import { AlreadyRunning } from '../service/backoffice-server.ts'
import { ConfigurationError } from '../service/config.ts'
import { TenantExists } from '../tenants/tenant/errors.ts'
import { asTenancyError, exitCodeOf } from './exit-codes.ts'
import { Interrupted } from './process/stop-signal.ts'

const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' })

const full = Object.assign(new pg.DatabaseError('could not extend file', 0, 'error'), { code: '53100' })

test.each([
  [1, new Error('unexpected')],
  [1, 'a string'],
  [1, defineError('E_TENANT_QUOTA_EXCEEDED', 429, 'Too much')('too much')],
  [2, InvalidRequest('invalid')],
  [2, new ConfigurationError(['PORT: not a number'])],
  [2, defineError('E_URL_NOT_ALLOWED', 422, 'Not allowed')('private address')],
  [3, NotFound('not found')],
  [4, Unauthorized('no token')],
  [4, Forbidden('not allowed')],
  [5, TenantExists('taken')],
  [5, new AlreadyRunning('/data', null)],
  [6, defineError('E_FINDINGS', 409, 'Findings')('two problems')],
  [7, DependencyUnavailable('unavailable')],
  [7, refused],
  [7, new AggregateError([refused])],
  [7, full],
  [130, new Interrupted('interrupted')],
])('exitCodeOf returns %i for %s', (code, error) => {
  expect(exitCodeOf(asTenancyError(error))).toBe(code)
})

test('asTenancyError keeps the messages of all errors', () => {
  expect(asTenancyError(new AggregateError([refused, new Error('and more')])).message).toContain('and more')
  expect(asTenancyError(full).message).toContain('disk is full (could not extend file)')
  expect(asTenancyError(new Error('no such column')).message).toBe('no such column')
})
