/**
 * Names of events, and patterns of subscriptions: an exact name, `prefix.*` for all names below it, or `*`. Hosts may dispatch names
 * that are not in the catalogue.
 */
import { z } from 'zod'

/** Name of the event that tests a subscription. */
export const TEST_EVENT = 'webhook.test'

/** First segments of the names of Tenantry's events. */
export const NAMESPACES = [
  'billing',
  'feature',
  'impersonation',
  'payment',
  'quota',
  'setting',
  'subscription',
  'tenant',
  'trial',
  'webhook',
] as const

const NAME = /^[a-z0-9_]+(\.[a-z0-9_]+)*$/
const PATTERN = /^(\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?)$/
const MAX_LENGTH = 128
const MAX_PATTERNS = 100

export const EventName = z
  .string()
  .max(MAX_LENGTH)
  .regex(NAME, 'must consist of lower-case letters, digits and _, in segments separated by dots')
  .meta({ description: 'Name of an event', example: 'tenant.activated' })

const EventPattern = z
  .string()
  .max(MAX_LENGTH)
  .regex(PATTERN, 'must be a name like `tenant.activated`, a prefix like `tenant.*`, or `*`')

export const EventPatterns = z
  .array(EventPattern)
  .min(1)
  .max(MAX_PATTERNS)
  .refine((patterns) => new Set(patterns).size === patterns.length, 'must not contain duplicates')
  .meta({ description: 'Names, `prefix.*` for all names below it, or `*` for all names', example: ['tenant.*'] })

/** All patterns that match a name: `a.b.c` matches `a.b.c`, `a.b.*`, `a.*` and `*`. */
export function patternsFor(name: string): string[] {
  const segments = name.split('.')
  const prefixes = segments.slice(0, -1).map((_, index) => `${segments.slice(0, index + 1).join('.')}.*`)
  return ['*', ...prefixes, name]
}
