import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSecrets, equalInConstantTime, fingerprint, isAppKey, randomToken } from './crypto.ts'

const appKey = () => randomBytes(32).toString('base64')
const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

const oldKey = appKey()
const newKey = appKey()
const secrets = createSecrets(oldKey)
const rotated = createSecrets(newKey, [oldKey])

/** Faster than `expect().toThrow()`, for thousands of values. */
function canDecrypt(encrypted: string): boolean {
  try {
    secrets.decrypt(encrypted, 'row 1')
    return true
  } catch {
    return false
  }
}

describe('an encrypted value', () => {
  test('decrypts to any plain text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (plain, binding) => {
        expect(secrets.decrypt(secrets.encrypt(plain, binding), binding)).toBe(plain)
      }),
    )
  })

  test('does not contain the plain text and differs for each encryption', () => {
    const first = secrets.encrypt('correct horse', 'webhook 1')
    expect(first).toMatch(/^v1\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]+$/)
    expect(first).not.toContain(Buffer.from('correct horse').toString('base64url').slice(0, 8))
    expect(secrets.encrypt('correct horse', 'webhook 1')).not.toBe(first)
  })

  test('is rejected with another binding', () => {
    const encrypted = secrets.encrypt('correct horse', 'webhook 1')
    expect(() => secrets.decrypt(encrypted, 'webhook 2')).toThrow()
    expect(() => secrets.decrypt(encrypted, '')).toThrow()
  })

  test.each(['', 'k', 'ab', 'abc'])('is rejected if any one character is changed: %j', (plain) => {
    const encrypted = secrets.encrypt(plain, 'row 1')
    const altered = [...encrypted].flatMap((kept, index) =>
      [...BASE64URL, '.', '=', ' ']
        .filter((other) => other !== kept)
        .map((other) => encrypted.slice(0, index) + other + encrypted.slice(index + 1)),
    )
    expect(altered.length).toBeGreaterThan(60 * encrypted.length)
    expect(altered.filter(canDecrypt)).toEqual([])
    expect(canDecrypt(encrypted)).toBe(true)
  })

  test('is rejected if it is shorter or longer, also with a short tag', () => {
    const encrypted = secrets.encrypt('k', 'row 1')
    for (let length = 0; length < encrypted.length; length++) {
      expect(() => secrets.decrypt(encrypted.slice(0, length), 'row 1'), encrypted.slice(0, length)).toThrow()
    }
    const [version, keyId, iv, body = ''] = encrypted.split('.')
    const tag = Buffer.from(body, 'base64url').subarray(-16)
    for (const bytes of [4, 8, 12, 13, 14, 15]) {
      const shortTag = tag.subarray(0, bytes).toString('base64url')
      expect(() => secrets.decrypt([version, keyId, iv, shortTag].join('.'), 'row 1')).toThrow('altered')
    }
    for (const more of ['A', '.', '.A', '\n']) expect(() => secrets.decrypt(encrypted + more, 'row 1')).toThrow()
  })
})

describe('after a rotation', () => {
  const before = secrets.encrypt('correct horse', 'row 1')

  test('values of old keys decrypt and are not current', () => {
    expect(rotated.decrypt(before, 'row 1')).toBe('correct horse')
    expect(rotated.isCurrent(before)).toBe(false)
    expect(secrets.isCurrent(before)).toBe(true)
  })

  test('new values are encrypted with the new key', () => {
    const after = rotated.encrypt('correct horse', 'row 1')
    expect(rotated.isCurrent(after)).toBe(true)
    expect(createSecrets(newKey).decrypt(after, 'row 1')).toBe('correct horse')
    expect(() => secrets.decrypt(after, 'row 1')).toThrow('not configured')
  })

  test('the error of an old value names the missing key after the old key is removed', () => {
    expect(() => createSecrets(newKey).decrypt(before, 'row 1')).toThrow('not configured')
  })

  test('old signatures are valid, and new signatures use the new key', () => {
    const signature = secrets.sign('text', 'cursor')
    expect(rotated.verify('text', 'cursor', signature)).toBe(true)
    expect(createSecrets(newKey).verify('text', 'cursor', signature)).toBe(false)
    expect(secrets.verify('text', 'cursor', rotated.sign('text', 'cursor'))).toBe(false)
  })
})

describe('an encrypted stream of createSecrets', () => {
  async function* one(bytes: Buffer) {
    yield bytes
  }
  const bytesOf = async (chunks: AsyncIterable<Buffer>) => Buffer.concat(await Array.fromAsync(chunks))
  const plain = randomBytes(100_000)
  const encryptedByOld = () => bytesOf(secrets.encryptStream(one(plain), 'backup 1'))

  test('decrypts with the key of its encryption, old or new', async () => {
    expect(await bytesOf(secrets.decryptStream(one(await encryptedByOld()), 'backup 1'))).toEqual(plain)
    expect(await bytesOf(rotated.decryptStream(one(await encryptedByOld()), 'backup 1'))).toEqual(plain)
    const after = await bytesOf(rotated.encryptStream(one(plain), 'backup 1'))
    expect(await bytesOf(createSecrets(newKey).decryptStream(one(after), 'backup 1'))).toEqual(plain)
  })

  test('is rejected with another key or another binding', async () => {
    const encrypted = await encryptedByOld()
    await expect(bytesOf(createSecrets(newKey).decryptStream(one(encrypted), 'backup 1'))).rejects.toThrow(
      'not configured',
    )
    await expect(bytesOf(secrets.decryptStream(one(encrypted), 'backup 2'))).rejects.toThrow('altered')
  })
})

describe('a signature', () => {
  test('is valid for its text and purpose, and for no other pair', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '\n', ' ', ':', '1') })
    fc.assert(
      fc.property(text, text, text, text, (textA, purposeA, textB, purposeB) => {
        const signature = secrets.sign(textA, purposeA)
        expect(secrets.verify(textA, purposeA, signature)).toBe(true)
        expect(secrets.verify(textB, purposeB, signature)).toBe(textA === textB && purposeA === purposeB)
      }),
      { examples: [['b\nc', 'a', 'c', 'a\nb']] },
    )
  })

  test('of an invalid format is rejected without an error', () => {
    for (const signature of ['', '.', 'ä', 'A'.repeat(10_000)])
      expect(secrets.verify('text', 'p', signature)).toBe(false)
  })
})

test('an application key is 32 bytes in base64', () => {
  expect(isAppKey(appKey())).toBe(true)
  expect(isAppKey(randomBytes(32).toString('base64url'))).toBe(true)
  for (const text of [
    '',
    'secret',
    randomBytes(31).toString('base64'),
    randomBytes(33).toString('base64'),
    `${appKey()}\n`,
  ]) {
    expect(isAppKey(text)).toBe(false)
    expect(() => createSecrets(text)).toThrow('32 bytes')
    expect(() => createSecrets(appKey(), [text])).toThrow('32 bytes')
  }
})

test('tokens differ, and a fingerprint is SHA-256 in hex', () => {
  expect(randomToken()).not.toBe(randomToken())
  expect(randomToken()).toMatch(/^[\w-]{43}$/)
  expect(fingerprint('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

test('strings of any lengths are compared completely', () => {
  fc.assert(fc.property(fc.string(), fc.string(), (a, b) => equalInConstantTime(a, b) === (a === b)))
  fc.assert(fc.property(fc.string(), (a) => equalInConstantTime(a, a)))
})
