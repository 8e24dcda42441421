/**
 * Tables of API tokens and of browser sessions. Tokens and cookies are stored as SHA-256 of 256 random bits. `fingerprint` of a session of a
 * configured token is derived from that token: a token with few random bits can be guessed from it.
 */
import type { Migration } from '../../kernel/database/migrations.ts'

export interface TokenRow {
  id: string
  name: string
  secretHash: string
  /** Its own patterns, then those of the tokens that created it. */
  bounds: readonly [readonly string[], ...(readonly string[])[]]
  tenants: string[] | null
  creatorType: string
  creatorId: string
  creatorName: string
  createdAt: Date
  expiresAt: Date | null
  lastUsedAt: Date | null
}

export interface SessionRow {
  id: string
  secretHash: string
  /** Null for a configured token. */
  tokenId: string | null
  /** Tells tokens apart without being one. */
  fingerprint: string
  name: string
  ip: string | null
  createdAt: Date
  expiresAt: Date
  lastUsedAt: Date
}

export interface AccessTables {
  apiTokens: TokenRow
  apiSessions: SessionRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_tokens',
    up: `
      create table api_tokens (
        id uuid primary key,
        name text not null constraint api_tokens_name unique,
        secret_hash text collate "C" not null,
        bounds jsonb not null,
        tenants text[],
        creator_type text not null,
        creator_id text not null,
        creator_name text not null,
        created_at timestamptz(3) not null,
        expires_at timestamptz(3),
        last_used_at timestamptz(3)
      );
      create index api_tokens_page on api_tokens (created_at desc, id desc);
      create table api_sessions (
        id uuid primary key,
        secret_hash text collate "C" not null unique,
        token_id uuid references api_tokens on delete cascade,
        fingerprint text collate "C" not null,
        name text not null,
        ip text,
        created_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        last_used_at timestamptz(3) not null
      );
      create index api_sessions_page on api_sessions (created_at desc, id desc);
      create index api_sessions_token on api_sessions (token_id);
      create index api_sessions_expiry on api_sessions (expires_at);
    `,
  },
]
