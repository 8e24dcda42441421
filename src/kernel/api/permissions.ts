/**
 * Permissions of tokens: patterns of operation names.
 *
 *   `quotas.consume`   this operation
 *   `quotas.*`         every name that starts with `quotas.`, also of later versions
 *   `read`             a named pattern: all GET operations, except those that reveal secrets
 *   `!tenants.delete`  not this one. A denial wins over every other pattern
 *
 * - A prefix does not permit operations of the scope `erase`: only `erase`, `admin`, `*` and their names do. A denied prefix denies them.
 * - A list without a permitting pattern permits nothing.
 * - A token with a tenant limit calls only operations below `/tenants/{id}`, of its tenants, which create no other tenant.
 * - Operations of the scope `any` are permitted for every token.
 */
import { z } from 'zod'
import type { Grant } from '../base/context.ts'
import type { AnyOperation } from './operation.ts'

type Named = (operation: Pick<AnyOperation, 'method' | 'scope'>) => boolean

const NAMED: ReadonlyMap<string, Named> = new Map<string, Named>([
  ['admin', () => true],
  ['read', ({ method, scope }) => method === 'GET' && scope !== 'reveal'],
  ['runtime', ({ scope }) => scope === 'runtime'],
  ['reveal', ({ scope }) => scope === 'runtime' || scope === 'reveal'],
  ['erase', ({ scope }) => scope === 'erase'],
])

const MAX_PATTERNS = 100

export const Pattern = z
  .string()
  .max(100)
  .regex(
    /^!?([A-Za-z][\w.]*\*?|\*)$/,
    'must be the name of an operation, a prefix that ends in *, or admin, read, runtime, reveal, erase; ! denies',
  )

/** The patterns of a token. */
export const May = z
  .array(Pattern)
  .min(1)
  .max(MAX_PATTERNS)
  .refine((patterns) => patterns.some((pattern) => !isDenial(pattern)), 'must have a pattern that permits an operation')

const isDenial = (pattern: string): boolean => pattern.startsWith('!')
const withoutDenial = (pattern: string): string => (isDenial(pattern) ? pattern.slice(1) : pattern)

type Subject = Pick<AnyOperation, 'name' | 'method' | 'scope'>

function matches(pattern: string, operation: Subject): boolean {
  const plain = withoutDenial(pattern)
  const named = NAMED.get(plain)
  if (named) return named(operation)
  if (!plain.endsWith('*')) return operation.name === plain
  const isAllowed = operation.scope !== 'erase' || plain === '*' || isDenial(pattern)
  return isAllowed && operation.name.startsWith(plain.slice(0, -1))
}

/** Whether one list of patterns permits an operation. */
export function permits(patterns: readonly string[], operation: Subject): boolean {
  if (operation.scope === 'any') return true
  return (
    patterns.some((pattern) => !isDenial(pattern) && matches(pattern, operation)) &&
    !patterns.some((pattern) => isDenial(pattern) && matches(pattern, operation))
  )
}

/** Names of the operations that every list permits. */
export const permittedOperations = (
  bounds: readonly (readonly string[])[],
  operations: readonly Subject[],
): Set<string> =>
  new Set(
    operations.filter((operation) => bounds.every((patterns) => permits(patterns, operation))).map(({ name }) => name),
  )

/** Patterns that match no operation: mistakes, because a denial that matches nothing denies nothing. */
export const unknownPatterns = (patterns: readonly string[], operations: readonly Subject[]): string[] =>
  patterns.filter(
    (pattern) => !NAMED.has(withoutDenial(pattern)) && !operations.some((operation) => matches(pattern, operation)),
  )

/** Whether a list permits every operation, also of later versions. */
export const isUnlimited = (patterns: readonly string[]): boolean =>
  !patterns.some(isDenial) && patterns.some((pattern) => pattern === 'admin' || pattern === '*')

type Called = Pick<AnyOperation, 'name' | 'path' | 'scope' | 'createsTenant'>

/** Whether an operation concerns only the tenant in its path. */
const isOfOneTenant = ({ path, createsTenant = false }: Called): boolean =>
  (path === '/tenants/{id}' || path.startsWith('/tenants/{id}/')) && !createsTenant

/** Whether a grant permits an operation for some tenant, or for none. */
export const mayCall = ({ operations, tenants }: Grant, operation: Called): boolean =>
  operations.has(operation.name) && (tenants === null || operation.scope === 'any' || isOfOneTenant(operation))

/** Whether a grant permits a call. @param tenantId parameter `id` of the path, as sent */
export const mayCallFor = (grant: Grant, operation: Called, tenantId: string | undefined): boolean =>
  mayCall(grant, operation) &&
  (grant.tenants === null || operation.scope === 'any' || (tenantId !== undefined && grant.tenants.includes(tenantId)))
