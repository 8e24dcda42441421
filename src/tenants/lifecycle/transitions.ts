/**
 * Carries out transitions of the life cycle. The read status is the condition of the UPDATE, so one of several
 * concurrent callers wins. The others read again and find a repeated action, another transition, or a rejection. The
 * change, its audit entry, its event and its job commit together.
 */

import type { TenancyError } from '../../kernel/base/errors.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantState } from '../tenant/errors.ts'
import { TenantSuspensionRepeated } from '../tenant/events.ts'
import { InstallTenant } from '../tenant/job-types.ts'
import { type Action, decide, type Move, type Status } from '../tenant/lifecycle.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'
import { type TenantRecord, toTenant } from '../tenant/tenant.ts'
import { requestInstallation } from '../transfers/requests/installation.ts'
import type { Fences } from './fences.ts'

export interface Transition {
  readonly tenant: TenantRecord
  readonly changed: boolean
}

export interface TransitionDetails {
  /** Columns that change together with the status. */
  readonly set?: Partial<TenantRow>
  /** Members of the event in addition to `tenantId`. */
  readonly event?: Record<string, unknown>
  readonly outcome?: 'success' | 'failure'
  /** Runs in the transaction of the transition, after its event. */
  readonly also?: () => Promise<unknown>
}

/** The requested status, for the error message. */
const TARGET_STATUS: Readonly<Record<Action, string>> = {
  activate: 'active',
  suspend: 'suspended',
  delete: 'deleted',
  restore: 'restored',
  install: 'active',
  fail: 'failed',
}

export class Transitions {
  readonly #kernel: Kernel
  readonly #registry: Registry
  readonly #fences: Fences

  constructor(kernel: Kernel, registry: Registry, fences: Fences) {
    this.#kernel = kernel
    this.#registry = registry
    this.#fences = fences
  }

  async run(
    id: string,
    action: Action,
    details: (move: Move & { from: Status }, now: Date) => TransitionDetails,
  ): Promise<Transition> {
    const transition = await this.#kernel.database.transaction(async () => {
      for (;;) {
        const row = await this.#registry.row(id)
        const decided = decide(row.status, action)
        if (decided === 'repeat' && (await this.#repeated(row, action)))
          return { tenant: toTenant(row), changed: false }
        if (decided === 'repeat') continue
        if (decided === 'rejected' || (action === 'restore' && row.purgeStartedAt)) throw rejection(row, action)
        const moved = await this.#move(
          row,
          action,
          decided.move,
          details({ ...decided.move, from: row.status }, this.#kernel.clock.now()),
        )
        if (moved) return { tenant: moved, changed: true }
      }
    })
    await this.#fences.opened(id)
    return transition
  }

  /** False if the status has changed. A listener of the repeated action may wait for a concurrent change. */
  async #repeated({ id, status }: TenantRow, action: Action): Promise<boolean> {
    if (action !== 'suspend') return true
    const { database, events } = this.#kernel
    await events.publish(TenantSuspensionRepeated, { tenantId: id })
    const still = await database
      .query<TenantTables>()
      .selectFrom('tenants')
      .select('id')
      .where('id', '=', id)
      .where('status', '=', status)
      .forUpdate()
      .executeTakeFirst()
    return still !== undefined
  }

  async #move(
    row: TenantRow,
    action: Action,
    move: Move,
    details: TransitionDetails,
  ): Promise<TenantRecord | undefined> {
    const { database, events, jobs, clock } = this.#kernel
    const to: Status = move.to === 'before' ? (row.statusBefore ?? 'failed') : move.to
    const updated = await database
      .query<TenantTables>()
      .updateTable('tenants')
      .set({ status: to, updatedAt: clock.now(), ...details.set })
      .where('id', '=', row.id)
      .where('status', '=', row.status)
      .where('statusBefore', 'is not distinct from', row.statusBefore)
      .where('purgeStartedAt', 'is', null)
      .returningAll()
      .executeTakeFirst()
    if (!updated) return undefined
    if (action !== 'install') await this.#fences.follow(updated)
    if (action === 'delete' && row.status === 'provisioning') await jobs.cancel(InstallTenant, row.id)
    if (to === 'provisioning') await requestInstallation(this.#kernel, updated)
    await this.#registry.changed(row.id)
    await recordChange(events, {
      action: `tenants.${action === 'fail' ? 'install' : action}`,
      tenantId: row.id,
      target: `tenant:${row.id}`,
      before: { status: row.status },
      after: { status: to, ...(updated.failure ? { failure: updated.failure } : {}) },
      outcome: details.outcome,
    })
    if (move.event) await events.publish(move.event, { tenantId: row.id, ...details.event })
    await details.also?.()
    return toTenant(await this.#registry.row(row.id)) // a listener may have changed the tenant in this transaction
  }
}

/** The error of an action that the status does not permit. */
export function rejection({ id, status, purgeStartedAt }: TenantRow, action: Action): TenancyError {
  const from = purgeStartedAt ? 'being purged' : status
  return TenantState(`Tenant "${id}" is ${from} and cannot become ${TARGET_STATUS[action]}.`, {
    extras: { from, to: TARGET_STATUS[action] },
  })
}
