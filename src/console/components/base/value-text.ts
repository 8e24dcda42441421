/** Text of values of unknown form, with limits of its depth and length. */
const MAX_DEPTH = 50
/** Characters of a cell or a label. */
export const MAX_LABEL = 300
/** Characters of a value on a card or in a difference. */
export const MAX_VALUE = 10_000

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** One line for a cell or a label. Objects and lists are JSON; `null` and `undefined` are empty. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  return shortened(typeof value === 'object' ? jsonOf(value) : String(value), MAX_LABEL)
}

/** JSON in which objects and lists below 50 levels are `…`. */
export const jsonOf = (value: unknown, indent?: number): string =>
  JSON.stringify(withoutDepth(value, MAX_DEPTH), undefined, indent) ?? ''

/** The end of a cut text is `…`, and never half a character. */
export const shortened = (text: string, max: number): string =>
  text.length > max ? `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, '')}…` : text

function withoutDepth(value: unknown, levels: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (levels === 0) return '…'
  if (Array.isArray(value)) return value.map((one) => withoutDepth(one, levels - 1))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutDepth(one, levels - 1)]))
}
