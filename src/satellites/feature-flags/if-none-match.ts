/** RFC 9110, 13.1.2: a list of entity tags, weak ones too, or `*` for any. */

const TAG = /\s*(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)/y

/** Whether an answer with this strong tag is to be sent; what cannot be read names no tag. */
export function matchesNone(header: string | null, etag: string): boolean {
  if (header === null) return true
  if (header.trim() === '*') return false
  for (const tag of tagsIn(header)) if (tag === etag) return false
  return true
}

function* tagsIn(header: string): Generator<string> {
  TAG.lastIndex = 0
  for (let match = TAG.exec(header); match; match = TAG.exec(header)) yield match[1] as string
}
