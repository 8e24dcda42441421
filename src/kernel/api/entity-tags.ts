/** Entity tags (RFC 9110, 8.8.3), and the headers that compare them: a list of tags, or `*` for any. */
import { createHash } from 'node:crypto'

const TAG = /\s*((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)/y

/** A strong tag, equal for equal texts in every process. */
export const entityTag = (text: string): string => `"${createHash('sha256').update(text).digest('base64url')}"`

/** `If-None-Match`: whether to send the response with this strong tag. A malformed header names no tag. */
export function matchesNone(header: string | null, etag: string): boolean {
  if (header === null) return true
  if (isAny(header)) return false
  for (const tag of tagsIn(header)) if (tag === etag || tag === `W/${etag}`) return false
  return true
}

/**
 * `If-Match`: whether the state with this strong tag may be changed. A weak tag never matches, and a malformed header names no tag.
 *
 * @param etag undefined: no state exists
 */
export function matchesAny(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false
  if (isAny(header)) return true
  for (const tag of tagsIn(header)) if (tag === etag) return true
  return false
}

const isAny = (header: string): boolean => header.trim() === '*'

function* tagsIn(header: string): Generator<string> {
  TAG.lastIndex = 0
  for (let match = TAG.exec(header); match; match = TAG.exec(header)) yield match[1] as string
}
