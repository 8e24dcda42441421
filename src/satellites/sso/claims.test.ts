import { describe, expect, test } from 'vitest'
import { claimsOf, isShort } from './claims.ts'

const idToken = { iss: 'https://login.example', sub: 'alice' }
const claims = (own: object, userinfo?: Record<string, unknown>) => {
  const { email, emailVerified, name } = claimsOf({ ...idToken, ...own }, userinfo)
  return { email, emailVerified, name }
}
const NOBODY = { email: null, emailVerified: false, name: null }
const MAIL = { email: 'a@acme.example', email_verified: true }
const OTHER_MAIL = { email: 'b@acme.example', email_verified: true }

describe('the address and whether it is verified', () => {
  test.each([
    ['are of the ID token that has both', MAIL, OTHER_MAIL, 'a@acme.example', true],
    ['are of userinfo where the ID token has neither', {}, OTHER_MAIL, 'b@acme.example', true],
    [
      'are of userinfo where the ID token has one of them',
      { email: 'a@acme.example' },
      OTHER_MAIL,
      'b@acme.example',
      true,
    ],
    [
      'are of userinfo alone, also where that verifies nothing',
      { email_verified: true },
      { email: 'b@acme.example' },
      'b@acme.example',
      false,
    ],
    [
      'are of the ID token where userinfo has no address',
      { email: 'a@acme.example' },
      { email_verified: true },
      'a@acme.example',
      false,
    ],
  ])('%s', (_what, own, userinfo, email, emailVerified) => {
    expect(claims(own, userinfo)).toEqual({ email, emailVerified, name: null })
  })

  test.each([[{ email: 1, email_verified: true }], [{ email: '', email_verified: true }], [{ email: null }], [{}]])(
    'are none of %j',
    (own) => {
      expect(claims(own)).toEqual(NOBODY)
    },
  )
})

test('what the ID token says stands, whatever userinfo says', () => {
  const { all, name } = claimsOf({ ...idToken, name: 'Alice' }, { sub: 'alice', name: 'Bob', groups: ['a'] })
  expect(name).toBe('Alice')
  expect(all).toEqual({ ...idToken, name: 'Alice', groups: ['a'] })
})

test.each([
  [{ email: 'a@acme.example' }, OTHER_MAIL, OTHER_MAIL],
  [{ email_verified: true }, { email: 'b@acme.example' }, { email: 'b@acme.example' }],
  [{ email: 'a@acme.example' }, { email_verified: true }, { email: 'a@acme.example' }],
  [MAIL, { email: 'b@acme.example' }, MAIL],
])('of %j and userinfo %j, all that is said of the address is of one source', (own, userinfo, expected) => {
  const { all } = claimsOf({ ...idToken, ...own }, { sub: 'alice', ...userinfo })
  expect(all).toEqual({ ...idToken, ...expected })
})

test('an ID token is short of what the scopes ask for and it leaves out', () => {
  expect(isShort(idToken, ['openid'])).toBe(false)
  expect(isShort(idToken, ['openid', 'email'])).toBe(true)
  expect(isShort({ ...idToken, email: 'a@acme.example' }, ['openid', 'email'])).toBe(true)
  expect(isShort({ ...idToken, ...MAIL }, ['openid', 'email'])).toBe(false)
  expect(isShort({ ...idToken, ...MAIL }, ['openid', 'email', 'profile'])).toBe(true)
})
