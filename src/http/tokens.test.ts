import { expect, test } from 'vitest'
import { Tokens } from './tokens.ts'

test.each([undefined, []])('without a token, the error says what to give: %j', (tokens) => {
  expect(() => new Tokens(tokens)).toThrow('the admin API needs a token: createHttp(tenancy, {')
})

test('a token that is too short is named', () => {
  expect(() => new Tokens([{ name: 'ops', token: 'short' }])).toThrow(/adminTokens\.0\.token: .*16 characters/)
})
