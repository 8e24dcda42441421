/** Selects the offered media type that an `Accept` header prefers (RFC 9110, 12.5.1). */

const RANGE = /^([\w!#$&^.+-]+|\*)\/([\w!#$&^.+-]+|\*)$/
const QUALITY = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i

interface Range {
  readonly type: string
  readonly subtype: string
  readonly quality: number
}

/**
 * The type with the best quality. Of equal ones, a named type precedes one that `*` covers, then the order of `offered` decides. If none
 * is acceptable, the first one, because a response is more useful than a 406.
 */
export function preferredMediaType<Type extends string>(
  accept: string | null,
  offered: readonly [Type, ...Type[]],
): Type {
  const ranges = (accept ?? '*/*').split(',').flatMap(rangeOf)
  let best = { type: offered[0], quality: 0, specificity: 0 }
  for (const type of offered) {
    const { quality, specificity } = rankOf(type, ranges)
    const isBetter = quality > best.quality || (quality === best.quality && specificity > best.specificity)
    if (quality > 0 && isBetter) best = { type, quality, specificity }
  }
  return best.type
}

/** Empty for a malformed range or quality, which is ignored. */
function rangeOf(text: string): Range[] {
  const [name = '', ...parameters] = text.split(';').map((part) => part.trim())
  const [, type, subtype] = RANGE.exec(name.toLowerCase()) ?? []
  if (!type || !subtype || (type === '*' && subtype !== '*')) return []
  const weight = parameters.find((parameter) => /^q=/i.test(parameter))
  const quality = weight === undefined ? '1' : QUALITY.exec(weight)?.[1]
  return quality === undefined ? [] : [{ type, subtype, quality: Number(quality) }]
}

/** The most specific range that covers a type decides: `text/csv;q=0` excludes it from a wildcard. */
function rankOf(mediaType: string, ranges: readonly Range[]): { quality: number; specificity: number } {
  const [type, subtype] = mediaType.split('/')
  const ranks = ranges.flatMap((range) => {
    if (range.type === type && range.subtype === subtype) return [{ quality: range.quality, specificity: 2 }]
    if (range.type === type && range.subtype === '*') return [{ quality: range.quality, specificity: 1 }]
    return range.type === '*' ? [{ quality: range.quality, specificity: 0 }] : []
  })
  return ranks.sort((a, b) => b.specificity - a.specificity)[0] ?? { quality: 0, specificity: 0 }
}
