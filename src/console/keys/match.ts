/** Matching of the palette: prefixes of words, initials, and parts of words, the best first. */

const words = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)

/**
 * The score of a text for a query: 0 if it does not match.
 *
 * @example score('ten', 'Tenants') > score('ant', 'Tenants')
 */
export function score(query: string, title: string, id = ''): number {
  const wanted = query.trim().toLowerCase()
  if (wanted === '') return 1
  if (id.toLowerCase().startsWith(wanted)) return 90 - Math.min(id.length - wanted.length, 20)
  const whole = title.toLowerCase()
  if (whole === wanted) return 100
  if (whole.startsWith(wanted)) return 80
  const own = words(title)
  const asked = words(query)
  if (asked.every((one) => own.some((word) => word.startsWith(one)))) return 60
  if (
    own
      .map(([first]) => first)
      .join('')
      .startsWith(wanted.replaceAll(' ', ''))
  )
    return 40
  return whole.includes(wanted) ? 20 : 0
}

export interface Entry {
  readonly title: string
  /** Text of an id after the title. */
  readonly id?: string
}

/** An entry of the palette. */
export interface Found extends Entry {
  /** Unique in the palette. */
  readonly value: string
  readonly href?: string
  readonly run?: () => unknown
  /** Text at the end of the line. */
  readonly note?: string
}

/** Matching entries, the best first. Equal ones keep their order. */
export function ranked<One extends Entry>(query: string, entries: readonly One[]): One[] {
  return entries
    .map((entry) => ({ entry, points: score(query, entry.title, entry.id) }))
    .filter(({ points }) => points > 0)
    .toSorted((a, b) => b.points - a.points)
    .map(({ entry }) => entry)
}

/** `suspend acme` is the command `suspend` with the object `acme`: each way to split the words. */
export function commandsOf(query: string): { readonly command: string; readonly object: string }[] {
  const parts = query.trim().split(/\s+/)
  return parts.slice(1).map((_, index) => ({
    command: parts.slice(0, index + 1).join(' '),
    object: parts.slice(index + 1).join(' '),
  }))
}
