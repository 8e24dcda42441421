/**
 * Formats of an exported list: NDJSON or CSV, selected by the request's `Accept`. Parts are read on demand, so a few items are in memory
 * at a time.
 */

import { invalid } from '../base/errors.ts'
import { csvRow } from './csv.ts'
import { preferredMediaType } from './media-type.ts'
import { StreamReply } from './operation.ts'

export const EXPORT_FORMATS = ['ndjson', 'csv'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

const FORMAT_OF = { 'application/x-ndjson': 'ndjson', 'text/csv': 'csv' } as const

/** `streams` of an operation with exports. */
export const EXPORT_TYPES: readonly string[] = Object.keys(FORMAT_OF)

const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv; charset=utf-8; header=present',
}

export interface Format<Item> {
  /** Start of the file. */
  readonly head: string
  readonly line: (item: Item) => string
}

export type Formats<Item> = Readonly<Record<ExportFormat, Format<Item>>>

/** @param columns of the table, in their order; null is an empty cell */
export const formatsOf = <Item>(columns: Readonly<Record<string, (item: Item) => string | null>>): Formats<Item> => ({
  ndjson: { head: '', line: (item) => `${JSON.stringify(item)}\n` },
  csv: {
    head: csvRow(Object.keys(columns)),
    line: (item) => csvRow(Object.values(columns).map((cell) => cell(item))),
  },
})

/** Undefined for a JSON page. */
export function wantedFormat(headers: Headers): ExportFormat | undefined {
  const type = preferredMediaType(headers.get('accept'), ['application/json', 'application/x-ndjson', 'text/csv'])
  return type === 'application/json' ? undefined : FORMAT_OF[type]
}

/** @param name of the file, without its extension */
export const exported = (format: ExportFormat, name: string, pieces: AsyncIterable<string>): StreamReply =>
  new StreamReply(CONTENT_TYPES[format], `${name}.${format}`, pieces)

/** Value of a command's option. */
export function exportFormat(text: string): ExportFormat {
  const format = EXPORT_FORMATS.find((one) => one === text)
  if (format) return format
  throw invalid([{ path: 'format', message: `"${text}" must be one of ${EXPORT_FORMATS.join(', ')}` }])
}
