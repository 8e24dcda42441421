/**
 * Compares the settings of processes on one backoffice, as flat text by name: `store`, `migrations.0001_notes`. A null value is
 * unknown, and differs from none.
 *
 * - A conflict is never valid: the processes would not read each other's secrets, rows or counters.
 * - Any other difference is valid while a deployment replaces the processes.
 */
import { defineError } from '../base/errors.ts'

export type ProcessSettings = Readonly<Record<string, string | null>>

export interface Difference {
  /** `isolation.drivers.database-pg` */
  readonly setting: string
  /** Absent: null. */
  readonly here: string | null
  readonly there: string | null
  readonly isConflict: boolean
}

export const SettingsConflict = defineError('E_SETTINGS_CONFLICT', 409, 'The settings conflict with other processes')

/** Names of settings of which two values are a conflict. A value that one process lacks is none. */
const CONFLICTING = /^(store|placements\..*|migrations\..*)$/

/** @param here settings of this process @param there settings of another one */
export function differencesBetween(here: ProcessSettings, there: ProcessSettings): Difference[] {
  const names = new Set([...Object.keys(here), ...Object.keys(there)])
  return [...names].toSorted().flatMap((setting) => {
    const [own, other] = [here[setting], there[setting]]
    if (own === other || own === null || other === null) return []
    const isConflict = own !== undefined && other !== undefined && isConflicting(setting, own, other)
    if (setting === 'appKey' && currentOf(own) === currentOf(other)) return []
    return [{ setting, here: own ?? null, there: other ?? null, isConflict }]
  })
}

/** Application keys are the current one and former ones: each process must know the current key of the other. */
function isConflicting(setting: string, own: string, other: string): boolean {
  if (setting !== 'appKey') return CONFLICTING.test(setting)
  return !keysOf(own).includes(currentOf(other)) || !keysOf(other).includes(currentOf(own))
}

const keysOf = (keys: string): string[] => keys.split(' ')
const currentOf = (keys = ''): string => keysOf(keys)[0] ?? ''

/** JSON whose text does not depend on the order of keys. */
export const settingText = (value: unknown): string =>
  JSON.stringify(value, (_, one) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  )

const SHOWN = 120
const MAX_LISTED = 20

/** `store: redis a:6379/0 here, postgres there`; the first ones, and the number of the others. */
export const differenceTexts = (all: readonly Difference[]): string[] => [
  ...all
    .slice(0, MAX_LISTED)
    .map(({ setting, here, there }) => `${setting}: ${shortened(here)} here, ${shortened(there)} there`),
  ...(all.length > MAX_LISTED ? [`${all.length - MAX_LISTED} more`] : []),
]

const shortened = (value: string | null): string =>
  value === null ? 'absent' : value.length > SHOWN ? `${value.slice(0, SHOWN)}…` : value
