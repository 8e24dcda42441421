/**
 * Formats results as text with the field names of the JSON.
 * - Control characters and changes of writing direction are escaped. Table libraries print them unchanged.
 */
import measure from 'fast-string-truncated-width'

const GAP = '  '
const ABSENT = '-'
const ELLIPSIS = '…'
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu

/** Columns of a word from which it may be broken: an id, a time and most addresses stay whole. */
const MAX_WORD_WIDTH = 60

type Row = Readonly<Record<string, unknown>>

export interface TableStyle {
  /** Columns of the screen. Longer rows have cells of several lines. Default: each row is one line. */
  readonly maxWidth?: number | undefined
  readonly heading?: (text: string) => string
  /** Widths of the columns in earlier parts of this table. If there are none, the part begins with the headings. */
  readonly widths?: Map<string, number>
}

interface Column {
  readonly title: string
  readonly cells: readonly string[]
  readonly width: number
  readonly isNumeric: boolean
}

/** Returns a line of headings and the lines of each row, with columns aligned and numbers to the right. Cuts nothing. */
export function tableText(rows: readonly Row[], { maxWidth, heading, widths = new Map() }: TableStyle = {}): string {
  const isFirst = widths.size === 0
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const columns = names.map((name): Column => {
    const values = rows.map((row) => row[name])
    const cells = values.map(cellText)
    return {
      title: name,
      cells,
      width: Math.max(widths.get(name) ?? 0, widthOf(name), largest(cells.map(widthOf))),
      isNumeric: values.every((value) => value === null || value === undefined || typeof value === 'number'),
    }
  })
  const fitted = maxWidth === undefined ? columns : fittedTo(maxWidth, columns)
  for (const { title, width } of fitted) widths.set(title, width)
  const lines = rows.flatMap((_, index) => linesOf(fitted, ({ cells }) => cells[index] ?? ''))
  const headings = isFirst ? linesOf(fitted, ({ title }) => title).map(heading ?? ((text) => text)) : []
  return [...headings, ...lines].map((text) => `${text}\n`).join('')
}

/** The widest columns become narrower, until the row fits or no column has a space to break at. */
function fittedTo(maxWidth: number, columns: readonly Column[]): Column[] {
  const least = columns.map(({ title, cells }) => Math.max(widthOf(title), largest(cells.map(widestWord))))
  const widthsAt = (cap: number) => columns.map(({ width }, index) => Math.min(width, Math.max(cap, least[index] ?? 0)))
  const totalAt = (cap: number) => widthsAt(cap).reduce((sum, width) => sum + width + GAP.length, -GAP.length)
  let cap = maxWidth
  while (cap > 0 && totalAt(cap) > maxWidth) cap -= 1
  const widths = widthsAt(cap)
  return columns.map((column, index) => ({ ...column, width: widths[index] ?? 0 }))
}

function linesOf(columns: readonly Column[], textOf: (column: Column) => string): string[] {
  const cells = columns.map((column) => ({ column, parts: wrapped(textOf(column), column.width) }))
  const height = largest(cells.map(({ parts }) => parts.length))
  return Array.from({ length: height }, (_, index) =>
    cells
      .map(({ column, parts }) => aligned(parts[index] ?? '', column))
      .join(GAP)
      .trimEnd(),
  )
}

/** Breaks at spaces, and a word that is too long anywhere. */
function wrapped(text: string, width: number): string[] {
  if (widthOf(text) <= width) return [text]
  const lines: string[] = []
  let line: string | undefined
  for (const word of wordsOf(text)) {
    const longer = line === undefined ? word : `${line} ${word}`
    if (widthOf(longer) <= width) {
      line = longer
      continue
    }
    if (line !== undefined) lines.push(line)
    line = word
    for (let cut = measure(line, { limit: width }); cut.truncated; cut = measure(line, { limit: width })) {
      lines.push(line.slice(0, Math.max(1, cut.index)))
      line = line.slice(Math.max(1, cut.index))
    }
  }
  return line === undefined ? lines : [...lines, line]
}

const widestWord = (text: string): number => Math.min(MAX_WORD_WIDTH, largest(wordsOf(text).map(widthOf)))

/** Words of a text. A command after a colon (`run: tenantry doctor --fix`) is one word, so that it can be copied from a screen. */
function wordsOf(text: string): string[] {
  const words: string[] = []
  let command: string[] | undefined
  const add = () => {
    if (!command) return
    const whole = command.join(' ')
    words.push(...(widthOf(whole) <= MAX_WORD_WIDTH ? [whole] : command))
    command = undefined
  }
  for (const word of text.split(' ')) {
    if (word === 'tenantry' && words.at(-1)?.endsWith(':')) command = []
    if (command) command.push(word)
    else words.push(word)
    if (/[.,;)]$/.test(word)) add()
  }
  add()
  return words
}

/** `Math.max` of a list of any length. */
const largest = (numbers: readonly number[]): number => numbers.reduce((most, one) => Math.max(most, one), 0)

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

const aligned = (text: string, { width, isNumeric }: Column): string =>
  isNumeric ? ' '.repeat(width - widthOf(text)) + text : padded(text, width)

export function cut(text: string, maxWidth: number | undefined): string {
  if (maxWidth === undefined) return text
  const { index, truncated } = measure(text, { limit: maxWidth, ellipsis: ELLIPSIS })
  return truncated ? text.slice(0, index) + ELLIPSIS : text
}
