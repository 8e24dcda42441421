import { describe, expect, test } from 'vitest'
import { hostCheck, isAllowedHost } from './allowed-hosts.ts'

/** @param allowedHosts of the setting */
function isAllowed(host: string, socketIp: string | null | undefined, allowedHosts?: readonly string[]): boolean {
  try {
    hostCheck(allowedHosts)(new Request(`http://${host}/metrics`), socketIp)
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: 'E_HOST_NOT_ALLOWED', status: 421 })
    return false
  }
}

describe.each([
  ['127.0.0.1', true],
  ['127.1.2.3', true],
  ['::1', true],
  ['::ffff:127.0.0.1', true],
  ['192.0.2.1', false],
  ['10.1.1.1', false],
  ['2001:db8::2', false],
  [null, false],
  [undefined, false],
] as const)('from %s', (socketIp, isLoopback) => {
  test('a host is allowed by the setting, else by the connection', () => {
    expect(isAllowed('status.example.com', socketIp)).toBe(!isLoopback)
    expect(isAllowed('status.example.com', socketIp, [])).toBe(false)
    expect(isAllowed('status.example.com', socketIp, ['STATUS.example.com'])).toBe(true)
    expect(isAllowed('a.status.example.com', socketIp, ['status.example.com'])).toBe(false)
    expect(isAllowed('status.example.com', socketIp, ['*'])).toBe(true)
  })

  test.each(['localhost', 'tenantry.localhost:4000', '127.0.0.1', '127.8.8.8:80', '[::1]', '2130706433'])(
    'the loopback name %s is allowed',
    (host) => {
      for (const allowedHosts of [undefined, [], ['status.example.com']])
        expect(isAllowed(host, socketIp, allowedHosts)).toBe(true)
    },
  )
})

test.each(['status.example.com', 'STATUS.example.com', '192.0.2.1', '[2001:db8::1]', 'xn--mnchen-3ya.de', '*'])(
  'the setting may list %s',
  (host) => {
    expect(isAllowedHost(host)).toBe(true)
  },
)

test.each([
  'status.example.com:80',
  'status.example.com:8080',
  'http://status.example.com',
  'status.example.com/metrics',
  'user@status.example.com',
  'münchen.de',
  '2001:db8::1',
  'a b',
  '',
])('the setting may not list "%s"', (host) => {
  expect(isAllowedHost(host)).toBe(false)
  expect(() => hostCheck([host])).toThrow(`allowedHosts: "${host}" is not a host name without a port`)
})
