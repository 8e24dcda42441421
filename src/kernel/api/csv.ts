/**
 * CSV after RFC 4180: CRLF, and quotes around a cell that holds a comma, a quote or a line break.
 *
 * A spreadsheet runs a cell that begins like a formula, and what stands in an export was in part written by strangers. So a
 * cell whose first character, spaces aside, is = + - @ (or the full-width form of one), or that begins with a tab or a line
 * break, is given an apostrophe in front: spreadsheets then take it as text. A cell that begins with an apostrophe is
 * given one too, so that whoever reads the file with a program gets every value back by dropping one leading apostrophe.
 */
const ACTIVE = /^(?:['\t\r\n]|\s*[=+\-@＝＋－＠])/
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$/

export const csvRow = (cells: readonly (string | null)[]): string => `${cells.map(csvCell).join(',')}\r\n`

function csvCell(cell: string | null): string {
  if (cell === null) return ''
  const text = ACTIVE.test(cell) ? `'${cell}` : cell
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
