/**
 * Writes CSV by RFC 4180: CRLF, and quotes around a cell with a comma, a quote or a line break.
 *
 * Exports contain text of strangers, and a spreadsheet runs a cell that starts like a formula. So a cell that starts with = + - @ after
 * spaces (or their full-width forms), or with a tab or a line break, gets an apostrophe in front, as does a cell that starts with an
 * apostrophe. A program gets every value back by removing one apostrophe.
 */
const ACTIVE = /^(?:['\t\r\n]|\s*[=+\-@＝＋－＠])/
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$/

export const csvRow = (cells: readonly (string | null)[]): string => `${cells.map(csvCell).join(',')}\r\n`

function csvCell(cell: string | null): string {
  if (cell === null) return ''
  const text = ACTIVE.test(cell) ? `'${cell}` : cell
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
