import type { Migration } from '../../kernel/database/migrations.ts'

export interface SsoRow {
  readonly tenantId: string
  readonly issuer: string | null
  readonly clientId: string | null
  /** Encrypted, bound to the tenant's id. */
  readonly clientSecret: string | null
  readonly scopes: string[]
  readonly redirectUri: string | null
  readonly allowedDomains: string[]
  readonly enabled: boolean
  readonly enforced: boolean
  /** Incremented with every change. A login that started under another version is rejected. */
  readonly version: number
  readonly updatedAt: Date
}

export interface SsoTables {
  sso: SsoRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_sso',
    up: `
      create table sso (
        tenant_id text primary key references tenants,
        issuer text,
        client_id text,
        client_secret text,
        scopes text[] not null,
        redirect_uri text,
        allowed_domains text[] not null,
        enabled boolean not null,
        enforced boolean not null,
        version integer not null,
        updated_at timestamptz(3) not null,
        check (not enabled or (issuer is not null and client_id is not null and redirect_uri is not null)),
        check (enabled or not enforced)
      );
    `,
  },
]
