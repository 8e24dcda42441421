/** The archive of a backup as a file of its own, that is there whole or not at all. */
import { rm, writeFile } from 'node:fs/promises'
import { invalid } from '../../../kernel/base/errors.ts'
import { size } from '../../../kernel/base/format.ts'
import { type meter, paceText } from '../../../kernel/base/progress-rate.ts'

interface DownloadOptions {
  readonly signal: AbortSignal
  /** Told how many bytes were written so far. */
  readonly onBytes: (bytes: number) => void
}

/** Returns how many bytes it has. Refuses a path where something is already. */
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
      throw invalid([{ path: 'output', message: `"${path}" is there already` }])
    }
    await rm(path, { force: true })
    throw error
  }
}

/** @param total of the archive where it is kept: an encrypted one is a little larger than what is written */
export function downloadText(bytes: number, total: number | null, look: ReturnType<typeof meter>): string {
  if (total === null) return `${size(bytes)}${paceText(look(bytes), size)}`
  return `${size(bytes)} of ${size(total)}${paceText(look(bytes, total), size)}`
}
