/** Reads all pages of a list, one after the other. */
import type { CallInput } from './operation.ts'
import { MAX_LIMIT } from './page.ts'

/** Reads one page of the list. */
export type ReadPage = (query: CallInput['query']) => Promise<any>

/** @param query of the first page; it may have a cursor @param limit of each page */
export async function* allPages(
  read: ReadPage,
  { cursor: first = null, ...query }: Readonly<Record<string, string | null>>,
  signal: AbortSignal,
  limit = MAX_LIMIT,
): AsyncIterable<any> {
  let cursor = first
  do {
    signal.throwIfAborted()
    const page = await read({
      ...query,
      limit: String(limit),
      ...(cursor === null ? {} : { cursor }),
    } as CallInput['query'])
    yield page
    cursor = page.nextCursor
  } while (cursor !== null)
}
