/**
 * Checks that a return path stays on the host, in every reading of browsers: they treat `\` as `/` and remove tabs and line breaks, and
 * two slashes at the start name a host.
 */
const MAX_LENGTH = 2_048
const UNCLEAR = /[\p{Cc}\p{Z}\p{Cf}\\]/u
/** A host name that no path can contain, so that a path which leaves it is detected. */
const BASE = 'https://host.invalid'

export function isReturnPath(text: string): boolean {
  if (text.length > MAX_LENGTH || !text.isWellFormed() || UNCLEAR.test(text)) return false
  if (!text.startsWith('/') || text.startsWith('//')) return false
  const url = URL.parse(text, BASE)
  return url !== null && url.origin === BASE && !url.pathname.startsWith('//')
}
