/** Options of the console: what the start accepts and rejects. */
import { expect, test } from 'vitest'
import { ConsoleOptions, contrastWithWhite } from './options.ts'

test('the contrast of white and black with white is 1 and 21', () => {
  expect(contrastWithWhite('#ffffff')).toBeCloseTo(1)
  expect(contrastWithWhite('#000000')).toBeCloseTo(21)
})

test.each([
  {},
  { name: 'Acme', accent: '#4338ca', logo: 'data:image/png;base64,AA==' },
  { links: [{ title: 'Back office', url: 'https://backoffice.example/customers/{id}' }] },
])('accepts %j', (options) => {
  expect(ConsoleOptions.safeParse(options).success).toBe(true)
})

test.each([
  { accent: '#ffee00' },
  { accent: 'red; } body { display: none' },
  { logo: 'https://acme.example/logo.png' },
  { links: [{ title: 'x', url: 'javascript:alert(1)' }] },
  { colour: '#000000' },
])('rejects %j', (options) => {
  expect(ConsoleOptions.safeParse(options).success).toBe(false)
})
