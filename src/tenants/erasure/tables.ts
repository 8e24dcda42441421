/**
 * The table of erasures. A row stays after the erasure: with the empty row of the tenant it is the tombstone, and its report the proof.
 *
 *   pending ──claim──► running ──► completed
 *      ▲                 │ └── claim by another worker, after `lease_until`
 *      └─────────────────┘ a system is unavailable: `waiting_for` names it
 */
import type { Actor } from '../../kernel/base/context.ts'
import type { Migration } from '../../kernel/database/migrations.ts'
import type { FoundData } from '../../kernel/erasable.ts'

export const STATES = ['pending', 'running', 'completed'] as const
export type State = (typeof STATES)[number]

export interface ErasureRow {
  readonly tenantId: string
  readonly state: State
  readonly reason: string
  readonly billing: 'keep' | 'delete'
  readonly requestedBy: Actor
  readonly requestedAt: Date
  readonly finishedAt: Date | null
  readonly waitingFor: string | null
  /** By the name of the system. All found data is recorded before its removal. */
  readonly steps: Readonly<Record<string, StepRecord>>
  /** The JSON that was signed. */
  readonly report: string | null
  readonly signature: string | null
  readonly signedWith: SigningKey | null
}

export type SigningKey = 'audit' | 'application'

export interface StepRecord {
  /** In the order of the steps. */
  readonly position: number
  readonly startedAt: string
  readonly finishedAt?: string
  readonly found: readonly FoundData[]
  /** Data that the search has left to the removal, recorded before the removal is committed, and part of `found` afterwards. */
  readonly counted?: readonly FoundData[]
}

/** An `ErasureRow` of a row. */
export const COLUMNS = `tenant_id as "tenantId", state, reason, billing, requested_by as "requestedBy", requested_at as "requestedAt",
  finished_at as "finishedAt", waiting_for as "waitingFor", steps, report, signature, signed_with as "signedWith"`

export const TABLE = 'multitenancy.erasures'

/** Without a foreign key: this part migrates before the tenants, whose rows are never deleted. */
export const tables: readonly Migration[] = [
  {
    name: '0001_erasures',
    up: `
      create table erasures (
        tenant_id text primary key,
        state text not null default 'pending' check (state in ('pending', 'running', 'completed')),
        reason text not null,
        billing text not null check (billing in ('keep', 'delete')),
        requested_by jsonb not null,
        requested_at timestamptz(3) not null,
        finished_at timestamptz(3),
        waiting_for text,
        steps jsonb not null default '{}',
        report text,
        signature text,
        signed_with text check (signed_with in ('audit', 'application')),
        worker uuid,
        lease_until timestamptz(3) not null default now(),
        check ((state = 'completed') = (report is not null))
      );
      create index erasures_unfinished on erasures (requested_at) where state <> 'completed';
    `,
  },
]
