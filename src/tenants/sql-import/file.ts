/** Reads the statements and rows of a file in chunks. */
import type { CopiedRow } from './copy-data.ts'
import type { SqlStatement, StatementReader } from './splitter.ts'
import { Utf8Text } from './utf8-decoder.ts'

export const LONGEST_STATEMENT = 64 * 1024 * 1024

export interface FileReading {
  /** Must iterate to the end. */
  readonly take: (items: Iterable<SqlStatement | CopiedRow>) => Promise<void>
  /** Called after each chunk. */
  readonly onBytes: (bytes: number) => void
}

export async function readFile(
  file: AsyncIterable<Uint8Array>,
  reader: StatementReader,
  { take, onBytes }: FileReading,
): Promise<void> {
  const text = new Utf8Text()
  for await (const chunk of file) {
    await take(reader.read(text.read(chunk)))
    onBytes(chunk.length)
  }
  text.end()
  await take(reader.end())
}
