/**
 * Keyset pages: a list is `{ data, nextCursor }`, and a cursor contains the sort key of the last row, so that every page costs the same.
 * A cursor is opaque, signed, and valid only for its list and filters.
 */
import { type SelectQueryBuilder, sql } from 'kysely'
import { z } from 'zod'
import { invalid } from '../base/errors.ts'
import type { Secrets } from '../crypto/crypto.ts'

export const DEFAULT_LIMIT = 50
export const MAX_LIMIT = 200

const OUT_OF_LIMIT = `must be a whole number from 1 to ${MAX_LIMIT}`

/** `Number` would accept blanks, `0x10` and `1e1`. */
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
    .meta({ description: 'Maximum number of items', default: DEFAULT_LIMIT }),
  cursor: z.string().min(1).max(1024).optional().meta({ description: '`nextCursor` of the previous page' }),
})

export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ data: z.array(item), nextCursor: z.string().nullable() })

export interface PageOf<Item> {
  readonly data: Item[]
  readonly nextCursor: string | null
}

const NO_MOMENT = 'must be RFC 3339 (2026-01-31T12:00:00Z) or a date'

/** A time in a query: RFC 3339, or a date for its UTC midnight. */
export const Moment = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], NO_MOMENT)
  .transform((text) => new Date(text))
  .refine((date) => !Number.isNaN(date.getTime()), 'must be an existing time')

/** As `Moment`, or in code a date. */
export const MomentOrDate = z.union([Moment, z.date()], NO_MOMENT)

/**
 * Columns whose values are unique together, all ascending or all descending, as one index has them: `table.column`, or the name alone
 * where the query has one table. Each is a member of the row, never null. A time has whole milliseconds: the cursor keeps no more.
 */
export interface Order<Column extends string = string> {
  readonly columns: readonly Column[]
  readonly direction: 'asc' | 'desc'
}

export const NEWEST_FIRST = { columns: ['createdAt', 'id'], direction: 'desc' } as const

export interface Keyset<Row, Item, Column extends string> {
  /** Name of the list, and values of its filters: a cursor is valid for these only. */
  readonly name: string
  readonly filters?: readonly unknown[]
  readonly order: Order<Column>
  readonly item: (row: Row) => Item
}

export interface PageOptions {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

type Member<Column extends string> = Column extends `${string}.${infer Name}` ? Name : Column

/** Sort key of the row that a page starts after, with dates as text. Empty for the first page. */
export type SortKey<Column extends string> = { readonly [Name in Member<Column>]?: string }

/** Rows after a sort key, in order, at least `limit` of them if there are as many. */
export type RowReader<Row, Column extends string> = (
  after: SortKey<Column>,
  limit: number,
) => readonly Row[] | Promise<readonly Row[]>

export class Cursors {
  readonly #secrets: Secrets

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  /**
   * One page of a list. The rows are those of a Kysely query without order and limit, or of a function.
   *
   * @example cursors.keysetPage(query, { name: 'notes', filters: [tenantId], order: NEWEST_FIRST, item: toNote }, { limit, cursor })
   */
  async keysetPage<Row extends object, Item, Column extends string>(
    rows: SelectQueryBuilder<any, any, Row> | RowReader<Row, Column>,
    { name, filters = [], order, item }: Keyset<Row, Item, Column>,
    { limit = DEFAULT_LIMIT, cursor }: PageOptions,
  ): Promise<PageOf<Item>> {
    const list = JSON.stringify([name, ...filters])
    const members = order.columns.map(memberOf)
    const values = this.decode(list, cursor) ?? []
    const after = Object.fromEntries(values.map((value, index) => [members[index], value])) as SortKey<Column>
    const most = limit + 1
    const found = await (typeof rows === 'function'
      ? rows(after, most)
      : keysetQuery(rows, order, after, most).execute())
    const shown = found.slice(0, limit)
    const last = shown.at(-1) as Record<string, unknown> | undefined
    const hasMore = found.length > limit && last !== undefined
    const nextCursor = hasMore
      ? this.encode(
          list,
          members.map((member) => textOf(last[member], `list "${name}", column "${member}"`)),
        )
      : null
    return { data: shown.map(item), nextCursor }
  }

  /** @param list name of the list with its filters @param key sort key of the last row */
  encode(list: string, key: readonly string[]): string {
    const text = Buffer.from(JSON.stringify(key)).toString('base64url')
    return `${text}.${this.#secrets.sign(text, `cursor ${list}`)}`
  }

  /** The sort key of the previous page's last row; undefined for the first page. @throws E_INVALID_REQUEST for another list's cursor */
  decode(list: string, cursor: string | undefined): string[] | undefined {
    if (cursor === undefined) return undefined
    const [text = '', signature = '', ...more] = cursor.split('.')
    if (more.length > 0 || !this.#secrets.verify(text, `cursor ${list}`, signature)) {
      throw invalid([{ path: 'cursor', message: 'must be a cursor of this list with these filters' }])
    }
    return JSON.parse(Buffer.from(text, 'base64url').toString())
  }
}

/** The query with order and limit, after a row or its sort key. One comparison of tuples, so that PostgreSQL starts inside the index. */
export function keysetQuery<Row, Column extends string>(
  query: SelectQueryBuilder<any, any, Row>,
  { columns, direction }: Order<Column>,
  after: { readonly [Name in Member<Column>]?: unknown } | undefined,
  limit: number,
): SelectQueryBuilder<any, any, Row> {
  let ordered = query.limit(limit)
  for (const column of columns) ordered = ordered.orderBy(column, direction)
  const values = columns.map((column) => (after as Record<string, unknown> | undefined)?.[memberOf(column)])
  if (values.some((value) => value === undefined)) return ordered
  const position = sql.join(columns.map((column) => sql.ref(column)))
  const isAfter = sql.raw(direction === 'desc' ? '<' : '>')
  return ordered.where(sql<boolean>`(${position}) ${isAfter} (${sql.join(values)})`)
}

const memberOf = (column: string): string => column.slice(column.lastIndexOf('.') + 1)

function textOf(value: unknown, where: string): string {
  if (value === null || value === undefined) throw new Error(`${where}: a sort key must not be null`)
  return value instanceof Date ? value.toISOString() : String(value)
}
