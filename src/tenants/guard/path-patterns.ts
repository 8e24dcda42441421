/**
 * Which paths a guard treats apart: `/health` is that path, `/public/*` everything below `/public`, a RegExp what it matches.
 *
 * Exceptions from a guard must not be reached by another spelling of a guarded path, and which spellings a router takes for the
 * same differs between routers. So only a path that all read alike can match: decoded once, with no empty or dot segment, no
 * encoded slash or percent sign, no backslash. Every other path, and every one in other case, matches nothing and is guarded.
 */
export type PathPattern = string | RegExp

/** A backslash; an empty or dot segment, also before a parameter of the path (`/..;`); a control character. */
const AMBIGUOUS = /\\|\/\/|\/\.{1,2}(?:[/;]|$)|\p{Cc}/u
/** What decodes to `/`, `\` or `%`. */
const AMBIGUOUS_ESCAPE = /%(?:2f|5c|25)/i

/** @param patterns throws for one that could never match */
export function pathMatcher(patterns: readonly PathPattern[]): (plain: string) => boolean {
  const exact = new Set<string>()
  const prefixes: string[] = []
  const expressions: RegExp[] = []
  for (const pattern of patterns) {
    if (pattern instanceof RegExp) {
      expressions.push(new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''))) // those remember where they were
      continue
    }
    const path = pattern.endsWith('/*') ? pattern.slice(0, -1) : pattern
    if (path !== plainPath(path) || path.includes('*')) {
      throw new Error(`"${pattern}" is no path: write "/exactly/this", "/everything/below/*" or a RegExp, not encoded`)
    }
    if (path === pattern) exact.add(path)
    else prefixes.push(path)
  }
  return (plain) =>
    exact.has(plain) ||
    prefixes.some((prefix) => plain.startsWith(prefix)) ||
    expressions.some((expression) => expression.test(plain))
}

/** The path, decoded; undefined when somebody may read it as another. */
export function plainPath(path: string): string | undefined {
  const decoded = path.includes('%') ? decodedOnce(path) : path
  if (decoded === undefined || !decoded.startsWith('/') || AMBIGUOUS.test(decoded)) return undefined
  return AMBIGUOUS_ESCAPE.test(path) ? undefined : decoded
}

/** Undefined when it is malformed. */
export function decodedOnce(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Whether the path goes up or stays somewhere in it, in whatever spelling. */
export const hasDotSegment = (path: string): boolean => DOT_SEGMENT.test(path)

const DOT_SEGMENT = /(?:\/|\\|%2f|%5c)(?:\.|%2e){1,2}(?:\/|\\|;|%2f|%5c|%3b|$)/i

/** The path of a request target, neither decoded nor normalised: without the query, and without scheme and authority. */
export function pathOfTarget(target: string): string {
  const end = target.search(/[?#]/)
  const path = end < 0 ? target : target.slice(0, end)
  const authority = /^[a-z][a-z0-9+.-]*:\/\/[^/\\]*/i.exec(path)
  return authority ? path.slice(authority[0].length) || '/' : path
}
