/** The tenant resource of the API, and the schemas of its members. */
import { domainToASCII } from 'node:url'
import { z } from 'zod'
import { isValidPostgresJson, isValidPostgresText } from '../../kernel/database/postgres-text.ts'
import { STATUSES } from './lifecycle.ts'
import type { TenantRow } from './tables.ts'

const NOT_POSTGRES_TEXT = 'must not contain NUL or an unpaired surrogate'
const METADATA_BYTES = 16 * 1024

export const TENANT_ID = /^[a-z0-9][a-z0-9_-]{0,47}$/

export const TenantId = z
  .string()
  .regex(
    TENANT_ID,
    'must have lower case letters, digits, - and _; at most 48 characters; starting with a letter or digit',
  )
  .meta({ description: 'Identifier of a tenant; default: a UUIDv7', example: 'acme' })

export const TenantName = z.string().trim().min(1).max(200).refine(isValidPostgresText, NOT_POSTGRES_TEXT)

/** Not z.record, which drops a member named `__proto__`. */
const JsonObject = z
  .unknown()
  .refine(isObject, { error: 'must be a JSON object', abort: true })
  .refine(isValidPostgresJson, { error: NOT_POSTGRES_TEXT, abort: true })
  .meta({ type: 'object', additionalProperties: true }) as z.ZodType<Record<string, unknown>, Record<string, unknown>>

export const Metadata = JsonObject.refine(
  (value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_BYTES,
  'must not exceed 16 KiB as JSON',
).meta({ description: 'Any JSON object up to 16 KiB; the default plan resolver reads `plan`' })

export const HOST_NAME = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/

/** A host name in its canonical form: lower case, punycode, no trailing dot. */
export const Domain = z
  .string()
  .max(253)
  .overwrite(canonicalDomain)
  .refine((text) => HOST_NAME.test(text) && !/^[0-9.]+$/.test(text), 'must be a host name')

export const Domains = z
  .array(Domain)
  .max(100)
  .refine((domains) => new Set(domains).size === domains.length, 'must not contain a domain twice')

export const Placement = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)

export const NewTenant = z
  .strictObject({
    id: TenantId.optional(),
    name: TenantName,
    metadata: Metadata.default({}),
    domains: Domains.default([]),
    isolation: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .meta({ description: 'Isolation driver; default: the configured one' }),
    placement: Placement.optional().meta({ description: 'PostgreSQL server of the configuration; default: `main`' }),
  })
  .meta({ example: { id: 'acme', name: 'Acme Corp' } })

export const TenantChange = z.strictObject({
  name: TenantName.optional(),
  metadata: JsonObject.optional().meta({ description: 'JSON merge patch (RFC 7396): null removes a key' }),
  domains: Domains.optional(),
})

export const MaintenanceRequest = z.strictObject({
  message: z.string().max(500).refine(isValidPostgresText, NOT_POSTGRES_TEXT).nullish(),
  retryAfterSeconds: z.number().int().min(1).max(86_400).default(60),
})

const moment = z.iso.datetime()

export const TenantRecord = z
  .object({
    id: TenantId,
    name: z.string(),
    status: z.enum(STATUSES),
    metadata: JsonObject,
    domains: z.array(z.string()),
    isolation: z.string(),
    placement: z.string(),
    maintenance: z
      .object({ message: z.string().nullable(), retryAfterSeconds: z.number().int(), since: moment })
      .nullable(),
    createdAt: moment,
    updatedAt: moment,
    activatedAt: moment.nullable(),
    suspendedAt: moment.nullable(),
    deletedAt: moment.nullable(),
    purgeAt: moment.nullable().meta({ description: 'Time from which a deleted tenant is permanently removed' }),
    failure: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'Tenant' })
export type TenantRecord = z.output<typeof TenantRecord>

export function toTenant(row: TenantRow): TenantRecord {
  return {
    id: row.id,
    name: row.name,
    status: row.status,
    metadata: row.metadata,
    domains: row.domains,
    isolation: row.isolation,
    placement: row.placement,
    maintenance: row.maintenance,
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
    activatedAt: row.activatedAt?.toISOString() ?? null,
    suspendedAt: row.suspendedAt?.toISOString() ?? null,
    deletedAt: row.deletedAt?.toISOString() ?? null,
    purgeAt: row.purgeAt?.toISOString() ?? null,
    failure: row.failure,
  }
}

/** RFC 7396: members of the patch replace, null removes, objects are merged. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key)
    else merged.set(key, mergePatch(merged.get(key), value))
  }
  return Object.fromEntries(merged)
}

/** Empty for an invalid domain. `domainToASCII` itself would truncate `a.example/b` to `a.example`. */
function canonicalDomain(text: string): string {
  const domain = text.trim().toLowerCase().replace(/\.$/, '')
  return /^[a-z0-9.\-\u0080-\uffff]*$/.test(domain) ? domainToASCII(domain) : ''
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
