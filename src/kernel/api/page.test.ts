import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { InvalidRequest } from '../base/errors.ts'
import { createSecrets } from '../crypto/crypto.ts'
import { Cursors, DEFAULT_LIMIT, MAX_LIMIT, Moment, Page, pageOf } from './page.ts'

const secrets = () => createSecrets(randomBytes(32).toString('base64'))
const cursors = new Cursors(secrets())

const refused = (list: string, cursor: string) => {
  try {
    return { decoded: cursors.decode(list, cursor) }
  } catch (error) {
    return error
  }
}
const isRefusal = (outcome: unknown) => InvalidRequest.matches(outcome)

describe('a cursor', () => {
  test('decodes to its sort key', () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.string({ unit: 'grapheme' })), (list, key) => {
        expect(cursors.decode(list, cursors.encode(list, key))).toEqual(key)
      }),
    )
  })

  test('is absent for the first page', () => {
    expect(cursors.decode('tenants', undefined)).toBeUndefined()
  })

  test('is valid for its own list and filters only', () => {
    const cursor = cursors.encode('tenants {"status":"active"}', ['2026-01-01', 'acme'])
    for (const list of ['tenants {"status":"suspended"}', 'tenants', 'webhooks', '']) {
      expect(refused(list, cursor)).toSatisfy(isRefusal)
    }
  })

  test('is rejected by an installation with another key', () => {
    expect(refused('tenants', new Cursors(secrets()).encode('tenants', ['acme']))).toSatisfy(isRefusal)
  })

  test('is rejected if any one character was changed, removed or added', () => {
    const cursor = cursors.encode('tenants', ['2026-01-01', 'acme'])
    for (let index = 0; index <= cursor.length; index++) {
      const [head, tail] = [cursor.slice(0, index), cursor.slice(index + 1)]
      for (const other of ['', 'A', 'b', '.', '=', '\n']) {
        if (head + other + tail === cursor) continue
        expect(refused('tenants', head + other + tail)).toSatisfy(isRefusal)
      }
    }
    expect(refused('tenants', `${cursor}.A`)).toSatisfy(isRefusal)
  })

  test('is rejected with a problem that names the parameter', () => {
    expect(refused('tenants', 'x')).toMatchObject({
      code: 'E_INVALID_REQUEST',
      status: 400,
      extras: { errors: [{ path: 'cursor' }] },
    })
  })

  test('is rejected if it is any other text', () => {
    fc.assert(fc.property(fc.string(), (text) => isRefusal(refused('tenants', text))))
  })
})

describe('a page', () => {
  const order = { columns: ['id'], direction: 'asc' } as const
  const nextPage = (ids: readonly string[], limit: number, cursor?: string) =>
    cursors.keysetPage(
      ({ id: last = '' }, most) =>
        ids
          .map((id) => ({ id }))
          .filter(({ id }) => id > last)
          .slice(0, most),
      { name: 'letters', order, item: (letter: { id: string }) => letter },
      { limit, cursor },
    )

  test('contains rows that no other page has, and the last page has no next cursor', () => {
    const sorted = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,3}$/)).map((ids) => ids.toSorted())
    return fc.assert(
      fc.asyncProperty(sorted, fc.integer({ min: 1, max: 5 }), async (ids, limit) => {
        const seen: string[] = []
        let cursor: string | undefined
        do {
          const { data, nextCursor } = await nextPage(ids, limit, cursor)
          expect(data.length).toBeLessThanOrEqual(limit)
          if (nextCursor !== null) expect(data.length).toBe(limit)
          seen.push(...data.map(({ id }) => id))
          cursor = nextCursor ?? undefined
        } while (cursor)
        expect(seen).toEqual(ids)
      }),
    )
  })

  test('has the shape of the contract', async () => {
    const shape = pageOf(z.object({ id: z.string() }))
    expect(shape.parse(await nextPage(['a', 'b'], 1))).toMatchObject({
      data: [{ id: 'a' }],
      nextCursor: expect.any(String),
    })
    expect(shape.parse(await nextPage([], 1))).toEqual({ data: [], nextCursor: null })
  })
})

test('limit has a default and a maximum', () => {
  expect(Page.parse({})).toEqual({ limit: DEFAULT_LIMIT })
  expect(Page.parse({ limit: '200' })).toEqual({ limit: MAX_LIMIT })
  for (const limit of ['0', '-1', '201', '1.5', 'ten', '']) expect(Page.safeParse({ limit }).success).toBe(false)
  for (const cursor of ['', 'x'.repeat(1025)]) expect(Page.safeParse({ cursor }).success).toBe(false)
})

test('a moment is an RFC 3339 time, or a date, which means its midnight in UTC', () => {
  expect(Moment.parse('2026-02-28')).toEqual(new Date('2026-02-28T00:00:00Z'))
  expect(Moment.parse('2026-02-28T12:00:00+02:00')).toEqual(new Date('2026-02-28T10:00:00Z'))
  for (const text of ['2026-02-30', 'yesterday', '2026-02-28T12:00:00', '1767225600', '']) {
    expect(Moment.safeParse(text).success).toBe(false)
  }
})
