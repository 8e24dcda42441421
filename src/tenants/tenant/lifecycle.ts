/**
 * The life cycle of a tenant, as a table: the target status and the event of each action from each status. Independent
 * of the database; lifecycle/transitions.ts carries out a transition with one conditional UPDATE.
 *
 *                     installation fails          activate
 *              ┌────────────────────────► failed ─────────┐
 *              │                            │             ▼
 *   create ─► provisioning ◄────────────────┼──────── (installed again)
 *              │        │ installed         │ delete
 *              │ delete ▼                   ▼
 *              │      active ──delete──► deleted ──restore──► the status before
 *              │      │    ▲                ▲   └──purge (past purgeAt)──► purged, the id stays reserved
 *              │ suspend  activate          │
 *              │      ▼    │                │
 *              │    suspended ──delete──────┤
 *              └────────────────────────────┘
 *
 * Maintenance is independent of the status. A repeated action (suspend of a suspended tenant) has no effect; any other
 * pair is rejected.
 */
import type { EventType } from '../../kernel/events/events.ts'
import {
  TenantActivated,
  TenantDeleted,
  TenantProvisioned,
  TenantProvisioningFailed,
  TenantRestored,
  TenantSuspended,
} from './events.ts'

export const STATUSES = ['provisioning', 'active', 'suspended', 'failed', 'deleted'] as const
export type Status = (typeof STATUSES)[number]

export type Action = 'activate' | 'suspend' | 'delete' | 'restore' | 'install' | 'fail'

export interface Move {
  /** `before` is the status before the deletion. */
  readonly to: Status | 'before'
  readonly event?: EventType
  /** Whether the job InstallTenant creates the storage (again). */
  readonly installs?: boolean
}

const toDeleted: Move = { to: 'deleted', event: TenantDeleted }

export const MOVES: Readonly<Record<Action, Partial<Readonly<Record<Status, Move>>>>> = {
  install: { provisioning: { to: 'active', event: TenantProvisioned } },
  fail: { provisioning: { to: 'failed', event: TenantProvisioningFailed } },
  activate: { suspended: { to: 'active', event: TenantActivated }, failed: { to: 'provisioning', installs: true } },
  suspend: { active: { to: 'suspended', event: TenantSuspended } },
  delete: { provisioning: toDeleted, active: toDeleted, suspended: toDeleted, failed: toDeleted },
  restore: { deleted: { to: 'before', event: TenantRestored } },
}

/** The status in which an action has already happened, so that repeating it is not an error. */
const REACHED: Partial<Record<Action, Status>> = { activate: 'active', suspend: 'suspended', delete: 'deleted' }

export type Decision = { readonly move: Move } | 'repeat' | 'rejected'

export function decide(status: Status, action: Action): Decision {
  const move = MOVES[action][status]
  if (move) return { move }
  return REACHED[action] === status ? 'repeat' : 'rejected'
}
