import { expect, test } from 'vitest'
import { serverAt } from './provider.ts'

test.each<[string, ReturnType<typeof serverAt>]>([
  ['http://127.0.0.1:12111', { host: '127.0.0.1', port: 12_111, protocol: 'http' }],
  ['http://stripe.test', { host: 'stripe.test', port: 80, protocol: 'http' }],
  ['https://stripe.test', { host: 'stripe.test', port: 443, protocol: 'https' }],
  ['https://stripe.test:443', { host: 'stripe.test', port: 443, protocol: 'https' }],
  ['https://stripe.test:80', { host: 'stripe.test', port: 80, protocol: 'https' }],
])('serverAt uses the port of the URL, or the default port of its protocol: %s', (endpoint, server) => {
  expect(serverAt(endpoint)).toEqual(server)
})
