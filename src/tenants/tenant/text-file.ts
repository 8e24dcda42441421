/** Reads the text of a file named by a caller; a missing file is an error of the caller. */
import { readFile } from 'node:fs/promises'
import { invalid } from '../../kernel/base/errors.ts'

export async function textOfFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw invalid([{ path: 'file', message: `File "${file}" not found.` }])
  }
}
