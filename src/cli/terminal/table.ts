/**
 * Formats results as text with the field names of the JSON.
 * - Control characters and changes of writing direction are escaped. Table libraries print them unchanged.
 */
import measure from 'fast-string-truncated-width'

const GAP = '  '
const ABSENT = '-'
const ELLIPSIS = '…'
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu

type Row = Readonly<Record<string, unknown>>

export interface TableStyle {
  /** Maximum columns of a cell. Default: no limit. */
  readonly maxCellWidth?: number | undefined
  readonly heading?: (text: string) => string
}

/** Returns a line of headings and a line for each row, with columns aligned and numbers to the right. */
export function tableText(rows: readonly Row[], { maxCellWidth, heading = (text) => text }: TableStyle = {}): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const columns = names.map((name) => {
    const values = rows.map((row) => row[name])
    const cells = values.map((value) => cut(cellText(value), maxCellWidth))
    return {
      title: name,
      cells,
      width: Math.max(widthOf(name), ...cells.map(widthOf)),
      isNumeric: values.every((value) => value === null || value === undefined || typeof value === 'number'),
    }
  })
  const line = (textOf: (column: (typeof columns)[number]) => string) =>
    columns
      .map((column) => aligned(textOf(column), column))
      .join(GAP)
      .trimEnd()
  const lines = rows.map((_, index) => line(({ cells }) => cells[index] ?? ''))
  return [heading(line(({ title }) => title)), ...lines].map((text) => `${text}\n`).join('')
}

/** Returns a line for each field, and for each nested field as `metadata.plan`. */
export function recordText(record: Row, heading: (text: string) => string = (text) => text): string {
  const fields = flattened(record)
  const width = Math.max(0, ...fields.map(([name]) => widthOf(name)))
  return fields.map(([name, value]) => `${heading(padded(name, width))}${GAP}${cellText(value)}\n`).join('')
}

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return ABSENT
  if (typeof value === 'string') return visible(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object')) {
    return value.map(cellText).join(', ') || ABSENT
  }
  if (typeof value !== 'object') return visible(String(value))
  return Object.keys(value).length === 0 ? ABSENT : visible(JSON.stringify(value))
}

/** Formats as JSON, with bytes in hexadecimal and bigints as text. */
export const jsonText = (value: unknown, indent?: number): string =>
  JSON.stringify(
    value,
    function (this: Row, name, one: unknown) {
      const itself = this[name] // the value before toJSON
      return typeof one === 'bigint' || itself instanceof Uint8Array ? cellText(itself) : one
    },
    indent,
  )

export const visible = (text: string): string =>
  text.replaceAll(UNSAFE, (character) => {
    if (character === '\n') return '\\n'
    if (character === '\t') return '\\t'
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })

function flattened(record: Row, prefix = ''): [string, unknown][] {
  return Object.entries(record).flatMap(([name, value]): [string, unknown][] => {
    const full = visible(`${prefix}${name}`)
    return isObject(value) && Object.keys(value).length > 0 ? flattened(value, `${full}.`) : [[full, value]]
  })
}

const isObject = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

const widthOf = (text: string): number => measure(text).width

const padded = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - widthOf(text)))

const aligned = (text: string, { width, isNumeric }: { width: number; isNumeric: boolean }): string =>
  isNumeric ? ' '.repeat(width - widthOf(text)) + text : padded(text, width)

export function cut(text: string, maxWidth: number | undefined): string {
  if (maxWidth === undefined) return text
  const { index, truncated } = measure(text, { limit: maxWidth, ellipsis: ELLIPSIS })
  return truncated ? text.slice(0, index) + ELLIPSIS : text
}
