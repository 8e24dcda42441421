/** Reads the statements and rows of a file in chunks. */
import type { CopiedRow } from './copy-data.ts'
import type { SqlStatement, StatementReader } from './splitter.ts'
import { Utf8Text } from './utf8-decoder.ts'

export const LONGEST_STATEMENT = 64 * 1024 * 1024

export interface FileReading {
  readonly signal: AbortSignal
  readonly row: (row: CopiedRow) => unknown
  readonly statement: (statement: SqlStatement) => Promise<void>
  /** Called after each chunk. */
  readonly onBytes: (bytes: number) => void
}

export async function readFile(
  file: AsyncIterable<Uint8Array>,
  reader: StatementReader,
  { signal, row, statement, onBytes }: FileReading,
): Promise<void> {
  const take = async (items: Iterable<SqlStatement | CopiedRow>) => {
    for (const item of items) {
      signal.throwIfAborted()
      await ('row' in item ? row(item) : statement(item))
    }
  }
  const text = new Utf8Text()
  for await (const chunk of file) {
    await take(reader.read(text.read(chunk)))
    onBytes(chunk.length)
  }
  text.end()
  await take(reader.end())
}
