/**
 * Whether a style sheet may be put into a `<style>` element of a host's page.
 *
 * Refused is
 *   - what could end the element, or be read as markup where `<style>` is not raw text (inside SVG, in XHTML): `<` before a
 *     letter, `/`, `!` or `?`, and `]]>`. In a string, `\3c ` writes the same character.
 *   - what loads from anywhere but the page's own origin: `@import`, a `url()` to another host, and the functions that take an
 *     address without `url()`. A path of the own host, `data:` and `#fragment` are let through.
 *   - what ran code in old browsers: `expression()`, `behavior`, `-moz-binding`, `progid:`.
 *
 * It is refused wherever it stands, in comments and strings too: finding out where those end, in the same way as every
 * browser, is how such checks are passed by. And it is refused in either spelling, as it is written and with CSS escapes
 * (`u\72l(`) undone; a `url()` has to be plain to be understood here.
 *
 * Not promised: that the page stays readable or honest. A style sheet decides all of how a page looks, what is covered and
 * what words stand in it; only those who may change the page may write one.
 */

/** How an address of the own origin is told from others, whichever of the two the page came by. */
const PAGES = ['https://page.invalid/path/', 'http://page.invalid/path/']

const MARKUP = /<[a-z/!?]|\]\]>/i
const ESCAPE = /\\(?:([0-9a-f]{1,6})(?:\r\n|[ \t\r\n\f])?|(\r\n|[\s\S]))/gi
const URL_CALL = /url\(/gi
/** What follows `url(`: one address, quoted or bare, without escapes, and nothing after it. */
const ADDRESS = /[ \t\r\n\f]*(?:"([^"\\\r\n\f]*)"|'([^'\\\r\n\f]*)'|([^"'()\\\s]*))[ \t\r\n\f]*\)/y

const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [/@import/i, '@import loads another style sheet; put its rules here'],
  [
    /image-set\(|(?<![\w-])(?:image|src)\(/i,
    'image-set(), image() and src() take addresses that are not checked; use url()',
  ],
  [
    /expression\(|(?<![\w-])(?:-ms-)?behavior\s*:|-moz-binding|progid:/i,
    'expression(), behavior, -moz-binding and progid: run code',
  ],
]

/** What is wrong with a style sheet, in words for its author; undefined when nothing is. */
export function dangerIn(css: string): string | undefined {
  if (MARKUP.test(css)) {
    return '"<" before a letter, "/", "!" or "?", and "]]>", could end the <style> element it is put into; in a string, write \\3c for "<"'
  }
  const unescaped = withoutEscapes(css)
  for (const [pattern, message] of FORBIDDEN) if (pattern.test(css) || pattern.test(unescaped)) return message
  const calls = [...css.matchAll(URL_CALL)]
  if ([...unescaped.matchAll(URL_CALL)].length > calls.length) return 'url( must be written without escapes'
  const stranger = calls.find(({ index }) => !staysHere(addressAt(css, index + 'url('.length)))
  return (
    stranger &&
    'url() takes one plain address: a path of this host, "data:…" or "#…"; never another host, never escapes'
  )
}

/** Undefined when it is not a single plain address. */
function addressAt(css: string, at: number): string | undefined {
  ADDRESS.lastIndex = at
  const match = ADDRESS.exec(css)
  return match ? (match[1] ?? match[2] ?? match[3]) : undefined
}

/** Resolved as a browser resolves it: `//host`, `\\host`, `https:host` and a tab inside are all seen for what they are. */
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
