import { expect, test } from 'vitest'
import { Tokens } from './tokens.ts'

test.each([undefined, []])('without a token, the error shows the missing option: %j', (tokens) => {
  expect(() => new Tokens(tokens)).toThrow('the admin API needs a token: createHttp(tenancy, {')
})

test('the error has the name of a token that is too short', () => {
  expect(() => new Tokens([{ name: 'ops', token: 'short' }])).toThrow(/adminTokens\.0\.token: .*16 characters/)
})
