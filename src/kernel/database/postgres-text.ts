/** Checks that PostgreSQL can store a text: without NUL and without an unpaired surrogate. */

export const isValidPostgresText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** The same of every string and key in a JSON value. */
export function isValidPostgresJson(value: unknown): boolean {
  if (typeof value === 'string') return isValidPostgresText(value)
  if (Array.isArray(value)) return value.every(isValidPostgresJson)
  if (typeof value !== 'object' || value === null) return typeof value !== 'bigint'
  return Object.entries(value).every(([key, member]) => isValidPostgresText(key) && isValidPostgresJson(member))
}

/** The text with a replacement character for each NUL and each unpaired surrogate. */
export const toPostgresText = (text: string): string => text.replaceAll('\0', '\u{fffd}').toWellFormed()
