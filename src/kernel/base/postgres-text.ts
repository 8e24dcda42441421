/** Checks that PostgreSQL can store a text: without NUL and without an unpaired surrogate. */

export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** The same of every string and key in a JSON value. */
export function isStorableJson(value: unknown): boolean {
  if (typeof value === 'string') return isStorable(value)
  if (Array.isArray(value)) return value.every(isStorableJson)
  if (typeof value !== 'object' || value === null) return typeof value !== 'bigint'
  return Object.entries(value).every(([key, member]) => isStorable(key) && isStorableJson(member))
}
