/**
 * The life of a tenant, as a table: from which status an action leads where, and which event says so. Nothing here touches a
 * database; lifecycle/transitions.ts carries a move out with one conditional UPDATE.
 *
 *                     install gives up            activate
 *              ┌────────────────────────► failed ─────────┐
 *              │                            │             ▼
 *   create ─► provisioning ◄────────────────┼──────── (installed again)
 *              │        │ installed         │ delete
 *              │ delete ▼                   ▼
 *              │      active ──delete──► deleted ──restore──► the status before
 *              │      │    ▲                ▲   └──purge (past purgeAt)──► gone, the id stays taken
 *              │ suspend  activate          │
 *              │      ▼    │                │
 *              │    suspended ──delete──────┤
 *              └────────────────────────────┘
 *
 * Maintenance is orthogonal to all of it. A repeat (suspend a suspended one) changes nothing; any other pair is refused.
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
  /** `before` is the status that the deletion found. */
  readonly to: Status | 'before'
  readonly event?: EventType
  /** Whether the storage is made (again) by the job InstallTenant. */
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

/** The status in which an action has already happened, so that a repeat is no error. */
const REACHED: Partial<Record<Action, Status>> = { activate: 'active', suspend: 'suspended', delete: 'deleted' }

export type Decision = { readonly move: Move } | 'repeat' | 'refused'

export function decide(status: Status, action: Action): Decision {
  const move = MOVES[action][status]
  if (move) return { move }
  return REACHED[action] === status ? 'repeat' : 'refused'
}
