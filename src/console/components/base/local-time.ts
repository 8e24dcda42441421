/** Times of `datetime-local` fields, which have the time zone of the browser, and times of the address. */
const MINUTE_MS = 60_000

/** Value of a `datetime-local` field, in local time. */
export function toLocal(at: string | Date | null | undefined): string {
  if (!at) return ''
  const date = new Date(at)
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16)
}

/** A time of the address; undefined if it is none. */
export const validTime = (at: unknown): string | undefined =>
  typeof at === 'string' && !Number.isNaN(Date.parse(at)) ? at : undefined

/** The time of a `datetime-local` field. */
export const fromLocal = (value: string): string | undefined => (value ? new Date(value).toISOString() : undefined)
