/**
 * Matches paths: `/health` is that path, `/public/*` all paths below `/public`, a RegExp its matches.
 *
 * Routers differ in the spellings that they treat as equal. Another spelling of a guarded path must not match an
 * exception, so only unambiguous paths match: decoded once, no empty or dot segment, no encoded slash or percent sign,
 * no backslash. All other paths, and other case, match nothing and are guarded.
 */
export type PathPattern = string | RegExp

/** A backslash; an empty or dot segment, also before a path parameter (`/..;`); a control character. */
const AMBIGUOUS = /\\|\/\/|\/\.{1,2}(?:[/;]|$)|\p{Cc}/u
/** Escapes of `/`, `\` and `%`. */
const AMBIGUOUS_ESCAPE = /%(?:2f|5c|25)/i

/** @param patterns throws for a pattern that can never match */
export function pathMatcher(patterns: readonly PathPattern[]): (plain: string) => boolean {
  const exact = new Set<string>()
  const prefixes: string[] = []
  const expressions: RegExp[] = []
  for (const pattern of patterns) {
    if (pattern instanceof RegExp) {
      expressions.push(new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''))) // a global or sticky RegExp keeps its position
      continue
    }
    const path = pattern.endsWith('/*') ? pattern.slice(0, -1) : pattern
    if (path !== plainPath(path) || path.includes('*')) {
      throw new Error(`"${pattern}" is not a path pattern: write "/exact/path", "/below/*" or a RegExp, not encoded`)
    }
    if (path === pattern) exact.add(path)
    else prefixes.push(path)
  }
  return (plain) =>
    exact.has(plain) ||
    prefixes.some((prefix) => plain.startsWith(prefix)) ||
    expressions.some((expression) => expression.test(plain))
}

/** The decoded path; undefined if it is ambiguous. */
export function plainPath(path: string): string | undefined {
  const decoded = path.includes('%') ? decodedOnce(path) : path
  if (decoded === undefined || !decoded.startsWith('/') || AMBIGUOUS.test(decoded)) return undefined
  return AMBIGUOUS_ESCAPE.test(path) ? undefined : decoded
}

/** Undefined if the encoding is invalid. */
export function decodedOnce(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Whether the path has a `.` or `..` segment in any spelling. */
export const hasDotSegment = (path: string): boolean => DOT_SEGMENT.test(path)

const DOT_SEGMENT = /(?:\/|\\|%2f|%5c)(?:\.|%2e){1,2}(?:\/|\\|;|%2f|%5c|%3b|$)/i

/** The path of a request target, neither decoded nor normalized: without query, scheme and authority. */
export function pathOfTarget(target: string): string {
  const end = target.search(/[?#]/)
  const path = end < 0 ? target : target.slice(0, end)
  const authority = /^[a-z][a-z0-9+.-]*:\/\/[^/\\]*/i.exec(path)
  return authority ? path.slice(authority[0].length) || '/' : path
}
