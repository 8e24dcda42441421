/** Tokens and sessions in the API. Only the response of a creation contains the token. */
import { z } from 'zod'
import { May } from '../../kernel/api/permissions.ts'
import { isValidPostgresText } from '../../kernel/database/postgres-text.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import type { SessionRow, TokenRow } from './tables.ts'

const moment = z.iso.datetime()

export const TokenName = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .refine(isValidPostgresText, 'must not contain NUL or an unpaired surrogate')

export const Tenants = z.array(TenantId).min(1).max(100)

export const NewToken = z.strictObject({
  name: TokenName.meta({ description: 'Name in the audit log; unique' }),
  may: May.meta({
    description: 'Permitted operations: names, prefixes with *, admin, read, runtime, reveal, erase; ! denies',
  }),
  tenants: Tenants.optional().meta({
    description: 'Tenants that the token is limited to; it calls only operations of these tenants',
  }),
  expiresAt: z.iso
    .datetime({ offset: true })
    .optional()
    .meta({ description: 'End of the token; default: that of the creating token, else none' }),
})
export type NewToken = z.input<typeof NewToken>

export const Token = z
  .object({
    id: z.uuid(),
    name: z.string(),
    may: z.array(z.string()),
    tenants: z.array(z.string()).nullable().meta({ description: 'Null if the token has no tenant limit' }),
    creator: z
      .object({ type: z.string(), id: z.string(), name: z.string() })
      .meta({ description: 'The actor of its creation; `type` as in the audit log' }),
    createdAt: moment,
    expiresAt: moment.nullable(),
    lastUsedAt: moment.nullable().meta({ description: 'Time of the last use, with a precision of a minute' }),
  })
  .meta({ id: 'Token' })
export type Token = z.output<typeof Token>

export const TokenWithSecret = Token.extend({
  token: z.string().meta({ description: 'For `x-admin-token`; returned once' }),
}).meta({ id: 'TokenWithSecret' })
export type TokenWithSecret = z.output<typeof TokenWithSecret>

export const BrowserSession = z
  .object({
    id: z.uuid(),
    name: z.string().meta({ description: 'Name of its token' }),
    tokenId: z.uuid().nullable().meta({ description: 'Null for a token of the configuration' }),
    ip: z.string().nullable().meta({ description: 'Address of the sign-in' }),
    createdAt: moment,
    expiresAt: moment,
    lastUsedAt: moment.meta({ description: 'Time of the last use, with a precision of a minute' }),
  })
  .meta({ id: 'BrowserSession' })
export type BrowserSession = z.output<typeof BrowserSession>

export const toToken = (row: TokenRow): Token => ({
  id: row.id,
  name: row.name,
  may: [...row.bounds[0]],
  tenants: row.tenants,
  creator: { type: row.creatorType, id: row.creatorId, name: row.creatorName },
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt?.toISOString() ?? null,
  lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
})

export const toSession = ({ id, name, tokenId, ip, createdAt, expiresAt, lastUsedAt }: SessionRow): BrowserSession => ({
  id,
  name,
  tokenId,
  ip,
  createdAt: createdAt.toISOString(),
  expiresAt: expiresAt.toISOString(),
  lastUsedAt: lastUsedAt.toISOString(),
})
