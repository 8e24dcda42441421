/** Formats quantities for people. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']
/** Until then seconds say more than minutes do, and minutes more than hours. */
const IN_SECONDS = 90
const IN_MINUTES_SECONDS = 5_400

/** `1,200,000` */
export const number = (value: number): string => Math.round(value).toLocaleString('en-US')

/** `120 MB` */
export function size(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length - 1)
  const value = bytes / 1_000 ** power
  return `${value >= 100 || power === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`
}

/** `20 s`, `40 min`, `2.5 h`; at least `1 s`. */
export function duration(seconds: number): string {
  if (seconds < IN_SECONDS) return `${Math.max(1, Math.round(seconds))} s`
  return seconds < IN_MINUTES_SECONDS ? `${Math.round(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`
}
