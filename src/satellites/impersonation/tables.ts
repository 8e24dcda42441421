import type { Migration } from '../../kernel/database/migrations.ts'

export interface ImpersonationRow {
  id: string
  tenantId: string
  userId: string
  actorType: string
  actorId: string
  actorName: string
  reason: string
  /** SHA-256, hex. The token is not stored. */
  tokenHash: string
  createdAt: Date
  expiresAt: Date
  /** Null if it was not ended; it may have expired. */
  endedAt: Date | null
}

export interface ImpersonationTables {
  impersonations: ImpersonationRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_impersonations',
    up: `
      create table impersonations (
        id uuid primary key,
        tenant_id text not null references tenants,
        user_id text not null,
        actor_type text not null,
        actor_id text not null,
        actor_name text not null,
        reason text not null,
        token_hash text collate "C" not null unique,
        created_at timestamptz(3) not null,
        expires_at timestamptz(3) not null,
        ended_at timestamptz(3)
      );
      create index impersonations_page on impersonations (tenant_id, created_at desc, id desc);
    `,
  },
  {
    // Most sessions expire without an end, so active ones are found by `expires_at`.
    name: '0002_impersonations_of_all',
    up: [
      'drop index concurrently if exists impersonations_of_all',
      'create index concurrently impersonations_of_all on impersonations (created_at desc, id desc)',
      'drop index concurrently if exists impersonations_open',
      'create index concurrently impersonations_open on impersonations (expires_at) where ended_at is null',
    ],
  },
]
