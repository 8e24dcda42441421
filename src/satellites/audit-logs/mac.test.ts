import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { macKey, macOf } from './mac.ts'

test('it is HMAC-SHA256', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 64 }),
      fc.string({ unit: 'binary', maxLength: 500 }),
      (secret, text) => {
        const key = Buffer.from(secret)
        expect(macOf(macKey(key), text)).toBe(createHmac('sha256', key).update(text).digest('hex'))
      },
    ),
  )
})
