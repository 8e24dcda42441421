/** The setting as the screens see it. */
import type { Result } from '../../../console/api/contract.ts'

export type Setting = Result<'settings.list'>['data'][number]
export interface Target extends Setting {
  readonly tenantId: string
}

export const paramsOf = ({ tenantId, name }: Target) => ({ id: tenantId, name })

/** As `tenantry tenant:settings:set`: JSON; other text is a string. */
export function parsedValue(typed: string): unknown {
  try {
    return JSON.parse(typed)
  } catch {
    return typed
  }
}

/** Text that `parsedValue` reads as the same value. */
export function textOf(value: unknown): string {
  if (value === undefined) return ''
  if (typeof value === 'string' && parsedValue(value) === value) return value
  return JSON.stringify(value, undefined, 2)
}
