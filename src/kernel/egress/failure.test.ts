/** What no network here can be made to do; what it can is in egress.test.ts. */
import { describe, expect, test } from 'vitest'
import { type Failure, FailureError, failureOf, NAME_NOT_FOUND, type Stage } from './failure.ts'

const coded = (code: string, address?: string) => Object.assign(new Error('connect 10.0.0.7:443'), { code, address })

describe('a failure', () => {
  test.each<[string, string, boolean]>([
    ['ENETUNREACH', 'network unreachable', true],
    ['ENETDOWN', 'network unreachable', true],
    ['EADDRNOTAVAIL', 'network unreachable', true],
    ['EPERM', 'network unreachable', true],
    ['EMFILE', 'no resources', true],
    ['ENFILE', 'no resources', true],
    ['ENOBUFS', 'no resources', true],
    ['EHOSTUNREACH', 'host unreachable', false],
    ['ETIMEDOUT', 'timeout', false],
    ['ECONNREFUSED', 'connection refused', false],
    ['ECONNRESET', 'connection reset', false],
    ['EPIPE', 'connection reset', false],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'tls', false],
    ['EUNKNOWN', 'failed', false],
  ])('of %s: %s', (code, error, isOurs) => expect(failureOf(coded(code), 'open')).toMatchObject({ error, isOurs }))

  test('of the code is a failure of Tenantry', () => {
    expect(failureOf(new TypeError('x is not a function'), 'open')).toEqual({ error: 'failed', isOurs: true })
  })

  test.each<[Stage, string]>([
    ['connecting', 'failed'],
    ['securing', 'tls'],
    ['open', 'failed'],
  ])('of a certificate depends on the stage: %s', (stage, error) => {
    expect(failureOf(coded('CERT_HAS_EXPIRED'), stage)).toMatchObject({ error, isOurs: false })
  })

  test('contains the address and no other detail', () => {
    expect(failureOf(coded('ECONNREFUSED', '192.0.2.7'), 'connecting')).toEqual({
      error: 'connection refused',
      isOurs: false,
      address: '192.0.2.7',
    })
  })

  test.each<[string, Error[], Partial<Failure>]>([
    [
      'a refusal by one takes precedence over an unreachable network',
      [coded('ENETUNREACH', '2001:db8::1'), coded('ECONNREFUSED', '192.0.2.7')],
      { error: 'connection refused', isOurs: false, address: '192.0.2.7' },
    ],
    ['no network to any', [coded('ENETUNREACH'), coded('ENETUNREACH')], { error: 'network unreachable', isOurs: true }],
    ['without an address', [], { error: 'failed', isOurs: true }],
  ])('of several addresses: %s', (_, errors, failure) => {
    expect(failureOf(new AggregateError(errors), 'connecting')).toMatchObject(failure)
  })

  test('in a FailureError is returned unchanged', () => {
    expect(failureOf(new FailureError(NAME_NOT_FOUND), 'connecting')).toBe(NAME_NOT_FOUND)
  })
})
