/**
 * Where a person is sent after a login: a path of the host itself, never another host, however a browser reads it. Browsers
 * take `\` for `/`, leave tabs and line breaks out, and what begins with two slashes names a host.
 */
const MAX_LENGTH = 2_048
const UNCLEAR = /[\p{Cc}\p{Z}\p{Cf}\\]/u
/** No host could have this name, so that a path which leaves it is seen. */
const BASE = 'https://host.invalid'

export function isReturnPath(text: string): boolean {
  if (text.length > MAX_LENGTH || !text.isWellFormed() || UNCLEAR.test(text)) return false
  if (!text.startsWith('/') || text.startsWith('//')) return false
  const url = URL.parse(text, BASE)
  return url !== null && url.origin === BASE && !url.pathname.startsWith('//')
}
