/**
 * Keyset pages: a list is `{ data, nextCursor }`, and a cursor holds the sort key of the last row, so that the ten-thousandth
 * page costs what the first does. A cursor is opaque, signed, and tied to the list and filters it came from.
 */
import type { ReferenceExpression, SelectQueryBuilder } from 'kysely'
import { z } from 'zod'
import { invalid } from '../base/errors.ts'
import type { Secrets } from '../crypto/crypto.ts'

export const DEFAULT_LIMIT = 50
export const MAX_LIMIT = 200

const OUT_OF_LIMIT = `a whole number from 1 to ${MAX_LIMIT}`

/** `Number` would take blanks, `0x10` and `1e1`, too. */
const digits = (text: unknown): unknown => (typeof text === 'string' && !/^\d+$/.test(text) ? Number.NaN : text)

/** `limit` and `cursor` of every list. */
export const Page = z.object({
  limit: z
    .preprocess(
      digits,
      z.coerce
        .number(OUT_OF_LIMIT)
        .int({ error: OUT_OF_LIMIT, abort: true })
        .min(1, OUT_OF_LIMIT)
        .max(MAX_LIMIT, OUT_OF_LIMIT),
    )
    .default(DEFAULT_LIMIT)
    .meta({ description: 'Items at most', default: DEFAULT_LIMIT }),
  cursor: z.string().min(1).max(1024).optional().meta({ description: '`nextCursor` of the page before' }),
})

export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ data: z.array(item), nextCursor: z.string().nullable() })

export interface PageOf<Item> {
  readonly data: Item[]
  readonly nextCursor: string | null
}

const NO_MOMENT = 'not RFC 3339 (2026-01-31T12:00:00Z) or a date'

/** A moment as a query takes it: RFC 3339, or a date alone for its UTC midnight. */
export const Moment = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], NO_MOMENT)
  .transform((text) => new Date(text))
  .refine((date) => !Number.isNaN(date.getTime()), 'not a moment that exists')

/** The same, or in code a date. */
export const MomentOrDate = z.union([Moment, z.date()], NO_MOMENT)

export class Cursors {
  readonly #secrets: Secrets

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  /** `list` names the list and its filters; `key` is the last row's sort key. */
  encode(list: string, key: readonly string[]): string {
    const text = Buffer.from(JSON.stringify(key)).toString('base64url')
    return `${text}.${this.#secrets.sign(text, `cursor ${list}`)}`
  }

  /** The sort key to go on after, or undefined for the first page. Anything but a cursor of this list is a 400. */
  decode(list: string, cursor: string | undefined): string[] | undefined {
    if (cursor === undefined) return undefined
    const [text = '', signature = '', ...more] = cursor.split('.')
    if (more.length > 0 || !this.#secrets.verify(text, `cursor ${list}`, signature)) {
      throw invalid([{ path: 'cursor', message: 'not a cursor of this list with these filters' }])
    }
    return JSON.parse(Buffer.from(text, 'base64url').toString())
  }

  /** A page of what has the newest first. @param of the table with `created_at` and `id`. @param list its name, with its filters */
  async newestFirst<Tables, From extends keyof Tables, Row extends { createdAt: Date; id: string }, Item>(
    query: SelectQueryBuilder<Tables, From, Row>,
    of: string,
    list: string,
    { limit, cursor }: { limit: number; cursor?: string | undefined },
    item: (row: Row) => Item,
  ): Promise<PageOf<Item>> {
    const after = this.decode(list, cursor)
    const [at, id] = [`${of}.createdAt`, `${of}.id`] as ReferenceExpression<Tables, From>[] as any[]
    let page = query
      .orderBy(at, 'desc')
      .orderBy(id, 'desc')
      .limit(limit + 1)
    if (after) {
      const [lastAt = '', lastId = ''] = after
      page = page.where(({ eb, refTuple, tuple }) => eb(refTuple(at, id), '<', tuple(new Date(lastAt), lastId)))
    }
    const rows = await page.execute()
    return this.page(list, rows, limit, item, ({ createdAt, id }) => [createdAt.toISOString(), id])
  }

  /** Makes a page of `limit` items from up to `limit + 1` rows. */
  page<Row, Item>(
    list: string,
    rows: readonly Row[],
    limit: number,
    item: (row: Row) => Item,
    key: (row: Row) => readonly string[],
  ): PageOf<Item> {
    const shown = rows.slice(0, limit)
    const last = shown.at(-1)
    const hasMore = rows.length > limit && last !== undefined
    return { data: shown.map(item), nextCursor: hasMore ? this.encode(list, key(last)) : null }
  }
}
