import { describe, expect, test } from 'vitest'
import { claimsOf, isShort } from './claims.ts'

const idToken = { iss: 'https://login.example', sub: 'alice' }
const claims = (own: object, userinfo?: Record<string, unknown>) => {
  const { email, emailVerified, name } = claimsOf({ ...idToken, ...own }, userinfo)
  return { email, emailVerified, name }
}
const NO_CLAIMS = { email: null, emailVerified: false, name: null }
const MAIL = { email: 'a@acme.example', email_verified: true }
const OTHER_MAIL = { email: 'b@acme.example', email_verified: true }

describe('address and verification', () => {
  test.each([
    ['come from the ID token if it has both', MAIL, OTHER_MAIL, 'a@acme.example', true],
    ['come from userinfo if the ID token has neither', {}, OTHER_MAIL, 'b@acme.example', true],
    [
      'come from userinfo if the ID token has one of them',
      { email: 'a@acme.example' },
      OTHER_MAIL,
      'b@acme.example',
      true,
    ],
    [
      'come from userinfo only, also if it verifies no address',
      { email_verified: true },
      { email: 'b@acme.example' },
      'b@acme.example',
      false,
    ],
    [
      'come from the ID token if userinfo has no address',
      { email: 'a@acme.example' },
      { email_verified: true },
      'a@acme.example',
      false,
    ],
  ])('%s', (_what, own, userinfo, email, emailVerified) => {
    expect(claims(own, userinfo)).toEqual({ email, emailVerified, name: null })
  })

  test.each([[{ email: 1, email_verified: true }], [{ email: '', email_verified: true }], [{ email: null }], [{}]])(
    '%j yields no address',
    (own) => {
      expect(claims(own)).toEqual(NO_CLAIMS)
    },
  )
})

test('claims of the ID token take precedence over userinfo', () => {
  const { all, name } = claimsOf({ ...idToken, name: 'Alice' }, { sub: 'alice', name: 'Bob', groups: ['a'] })
  expect(name).toBe('Alice')
  expect(all).toEqual({ ...idToken, name: 'Alice', groups: ['a'] })
})

test.each([
  [{ email: 'a@acme.example' }, OTHER_MAIL, OTHER_MAIL],
  [{ email_verified: true }, { email: 'b@acme.example' }, { email: 'b@acme.example' }],
  [{ email: 'a@acme.example' }, { email_verified: true }, { email: 'a@acme.example' }],
  [MAIL, { email: 'b@acme.example' }, MAIL],
])('ID token %j and userinfo %j: all claims about the address come from one source', (own, userinfo, expected) => {
  const { all } = claimsOf({ ...idToken, ...own }, { sub: 'alice', ...userinfo })
  expect(all).toEqual({ ...idToken, ...expected })
})

test('detects claims that the scopes request and the ID token lacks', () => {
  expect(isShort(idToken, ['openid'])).toBe(false)
  expect(isShort(idToken, ['openid', 'email'])).toBe(true)
  expect(isShort({ ...idToken, email: 'a@acme.example' }, ['openid', 'email'])).toBe(true)
  expect(isShort({ ...idToken, ...MAIL }, ['openid', 'email'])).toBe(false)
  expect(isShort({ ...idToken, ...MAIL }, ['openid', 'email', 'profile'])).toBe(true)
})
