/**
 * Names of what is dispatched, and what a subscription may name: an exact name, `prefix.*` for everything below it, or `*`. Any
 * name of the pattern may be dispatched and subscribed; the catalogue informs, it does not limit.
 */
import { z } from 'zod'

/** What a subscription is tried with. */
export const TEST_EVENT = 'webhook.test'

const NAME = /^[a-z0-9_]+(\.[a-z0-9_]+)*$/
const PATTERN = /^(\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?)$/
const MAX_LENGTH = 128
const MAX_PATTERNS = 100

export const EventName = z
  .string()
  .max(MAX_LENGTH)
  .regex(NAME, 'lower case letters, digits and _, in parts separated by dots')
  .meta({ description: 'Name of an event', example: 'tenant.activated' })

const EventPattern = z
  .string()
  .max(MAX_LENGTH)
  .regex(PATTERN, 'a name like `tenant.activated`, a prefix like `tenant.*`, or `*`')

export const EventPatterns = z
  .array(EventPattern)
  .min(1)
  .max(MAX_PATTERNS)
  .refine((patterns) => new Set(patterns).size === patterns.length, 'a name is given twice')
  .meta({ description: 'Names, `prefix.*` for all below it, or `*` for all', example: ['tenant.*'] })

/** Every pattern that an event's name fits: `a.b.c` fits `a.b.c`, `a.b.*`, `a.*` and `*`. */
export function patternsFor(name: string): string[] {
  const parts = name.split('.')
  const prefixes = parts.slice(0, -1).map((_, index) => `${parts.slice(0, index + 1).join('.')}.*`)
  return ['*', ...prefixes, name]
}

/** `TenantEnteredMaintenance` is `tenant.entered_maintenance`: the first word, and the others. */
export function dottedName(typeName: string): string {
  const [first = '', ...others] = typeName.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
  return others.length === 0 ? first : `${first}.${others.join('_')}`
}
