import { describe, expect, test } from 'vitest'
import { pathMatcher, pathOfTarget, plainPath } from './path-patterns.ts'

describe('plainPath', () => {
  test.each([
    ['/', '/'],
    ['/health', '/health'],
    ['/h%65alth', '/health'],
    ['/a%20b/%C3%BC', '/a b/ü'],
    ['/.well-known/x', '/.well-known/x'],
    ['/a..b/...', '/a..b/...'],
    ['/a/', '/a/'],
  ])('decodes %s', (path, plain) => expect(plainPath(path)).toBe(plain))

  test.each([
    '',
    '*',
    'health',
    '//health',
    '/a//b',
    '/.',
    '/..',
    '/./health',
    '/api/../health',
    '/api/..',
    '/api/%2e%2e/health',
    '/api/.%2E/health',
    '/api/..;/health',
    '/api/..%3b/health',
    '/api%2f..%2fhealth',
    '/health%2Fx',
    '/api\\..\\health',
    '/api%5c..%5chealth',
    '/%252e%252e/health',
    '/health%00',
    '/health%0a',
    '/%',
    '/%zz',
    '/%c3%28',
  ])('rejects %s', (path) => expect(plainPath(path)).toBeUndefined())
})

describe('patterns', () => {
  const matches = pathMatcher(['/health', '/public/*', /^\/v\d+\/open$/g])

  test.each(['/health', '/public/', '/public/a/b', '/v1/open'])('%s matches', (path) => {
    expect(matches(path)).toBe(true)
    expect(matches(path)).toBe(true) // a global expression keeps its position
  })

  test.each([
    '/',
    '/Health',
    '/health/',
    '/healthy',
    '/public',
    '/publicity',
    '/PUBLIC/a',
    '/x/public/a',
    '/v1/open/x',
  ])('%s does not match', (path) => expect(matches(path)).toBe(false))

  test('/* matches every path', () => expect(pathMatcher(['/*'])('/any/thing')).toBe(true))

  test.each(['health', '', '/a*b', '/a/*/b', '/a//b', '/a/../b', '/a%20b', 'https://x/y'])(
    'rejects the pattern "%s", which can never match',
    (pattern) => expect(() => pathMatcher([pattern])).toThrow(/is not a path pattern/),
  )
})

test.each([
  ['/a?b=/c', '/a'],
  ['/a#b', '/a'],
  ['/a%3Fb', '/a%3Fb'],
  ['http://host/a/../b?c', '/a/../b'],
  ['HTTP://host:80', '/'],
  ['//host/a', '//host/a'],
  ['*', '*'],
])('returns the path of %s: %s', (target, path) => expect(pathOfTarget(target)).toBe(path))
