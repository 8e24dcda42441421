/** Writes the archive of a backup to a new file; after a failure no file remains. */
import { rm, writeFile } from 'node:fs/promises'
import { invalid } from '../../../kernel/base/errors.ts'
import { size } from '../../../kernel/base/format.ts'
import { type meter, paceText } from '../../../kernel/base/progress-rate.ts'

interface DownloadOptions {
  readonly signal: AbortSignal
  /** Receives the number of bytes written so far. */
  readonly onBytes: (bytes: number) => void
}

/** Returns the size in bytes. Rejects an existing path. */
export async function downloaded(
  chunks: AsyncIterable<Uint8Array>,
  path: string,
  { signal, onBytes }: DownloadOptions,
): Promise<number> {
  let bytes = 0
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      yield chunk
      bytes += chunk.length
      onBytes(bytes)
    }
  }
  try {
    await writeFile(path, counted(), { flag: 'wx', mode: 0o600, signal })
    return bytes
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw invalid([{ path: 'output', message: `File "${path}" already exists.` }])
    }
    await rm(path, { force: true })
    throw error
  }
}

/** @param total of the stored archive; an encrypted one is slightly larger than the download */
export function downloadText(bytes: number, total: number | null, look: ReturnType<typeof meter>): string {
  if (total === null) return `${size(bytes)}${paceText(look(bytes), size)}`
  return `${size(bytes)} of ${size(total)}${paceText(look(bytes, total), size)}`
}
