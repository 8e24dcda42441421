/**
 * Checks whether a style sheet is safe inside a `<style>` element of a host's page.
 *
 * Rejected:
 *   - text that could end the element, or be markup where `<style>` is not raw text (SVG, XHTML): `<` before a letter, `/`, `!`
 *     or `?`, and `]]>`. In a string, `\3c ` writes the same character.
 *   - loads from other origins: `@import`, a `url()` to another host, and functions that take an address without `url()`.
 *     Paths of the own host, `data:` and `#fragment` are accepted.
 *   - code of old browsers: `expression()`, `behavior`, `-moz-binding`, `progid:`.
 *
 * The check ignores comments and strings, because browsers differ on where those end. It also runs with CSS escapes (`u\72l(`)
 * resolved. Not covered: the appearance of the page. A style sheet can hide and replace all of it.
 */

/** Two bases: an address that resolves below each of them belongs to the own origin. */
const PAGES = ['https://page.invalid/path/', 'http://page.invalid/path/']

const MARKUP = /<[a-z/!?]|\]\]>/i
const ESCAPE = /\\(?:([0-9a-f]{1,6})(?:\r\n|[ \t\r\n\f])?|(\r\n|[\s\S]))/gi
const URL_CALL = /url\(/gi
/** The rest of `url(`: one address, quoted or bare, without escapes, and the closing parenthesis. */
const ADDRESS = /[ \t\r\n\f]*(?:"([^"\\\r\n\f]*)"|'([^'\\\r\n\f]*)'|([^"'()\\\s]*))[ \t\r\n\f]*\)/y

const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [/@import/i, 'must not use @import, which loads another style sheet; include its rules'],
  [
    /image-set\(|(?<![\w-])(?:image|src)\(/i,
    'must not use image-set(), image() or src(), whose addresses are not checked; use url()',
  ],
  [
    /expression\(|(?<![\w-])(?:-ms-)?behavior\s*:|-moz-binding|progid:/i,
    'must not use expression(), behavior, -moz-binding or progid:, which run code',
  ],
]

/** Message about the first dangerous part of a style sheet; undefined if it is safe. */
export function dangerIn(css: string): string | undefined {
  if (MARKUP.test(css)) {
    return 'must not contain "<" before a letter, "/", "!" or "?", nor "]]>", which could end the <style> element; in a string, write \\3c for "<"'
  }
  const unescaped = withoutEscapes(css)
  for (const [pattern, message] of FORBIDDEN) if (pattern.test(css) || pattern.test(unescaped)) return message
  const calls = [...css.matchAll(URL_CALL)]
  if ([...unescaped.matchAll(URL_CALL)].length > calls.length) return 'must write url( without escapes'
  const stranger = calls.find(({ index }) => !staysHere(addressAt(css, index + 'url('.length)))
  return stranger && 'url() must have one plain address: a path of this host, "data:…" or "#…", without escapes'
}

/** Undefined unless it is a single plain address. */
function addressAt(css: string, at: number): string | undefined {
  ADDRESS.lastIndex = at
  const match = ADDRESS.exec(css)
  return match ? (match[1] ?? match[2] ?? match[3]) : undefined
}

/** Resolves the address as a browser does, which covers `//host`, `\\host`, `https:host` and a tab inside. */
function staysHere(address: string | undefined): boolean {
  if (address === undefined) return false
  return PAGES.every((page) => {
    const resolved = URL.parse(address, page)
    return resolved !== null && (resolved.protocol === 'data:' || resolved.origin === new URL(page).origin)
  })
}

const withoutEscapes = (css: string): string =>
  css.replace(ESCAPE, (_, hex: string | undefined, char: string | undefined) => {
    if (hex === undefined) return char === undefined || /[\r\n\f]/.test(char) ? '' : char
    const code = Number.parseInt(hex, 16)
    return code > 0x10ffff ? '\ufffd' : String.fromCodePoint(code)
  })
