/**
 * The operations of bulk jobs: how each is carried out for a tenant, and its predicted result. A prediction applies the rules of the
 * operation to the tenant's row: an operation that is rolled back would already have closed storage.
 */
import { isDeepStrictEqual } from 'node:util'
import { rejection } from '../lifecycle/transitions.ts'
import { assertRowOpen } from '../registry/tenant-assertions.ts'
import { type Action, decide } from '../tenant/lifecycle.ts'
import type { TenantRow } from '../tenant/tables.ts'
import { MaintenanceRequest } from '../tenant/tenant.ts'
import type { Tenants } from '../tenants.ts'
import type { BulkInput, BulkOperation } from './input.ts'

/** Throws the error of the operation if it would be rejected. */
type Predict = (row: TenantRow, input: BulkInput) => 'done' | 'unchanged'

export interface BulkAction {
  readonly predict: Predict
  readonly run: (tenants: Tenants, id: string, input: BulkInput) => Promise<unknown>
}

const transition =
  (action: Action): Predict =>
  (row) => {
    const decided = decide(row.status, action)
    if (decided === 'rejected' || (action === 'restore' && row.purgeStartedAt)) throw rejection(row, action)
    return decided === 'repeat' ? 'unchanged' : 'done'
  }

const changes =
  (isSame: (row: TenantRow, input: BulkInput) => boolean): Predict =>
  (row, input) =>
    isSame(assertRowOpen(row), input) ? 'unchanged' : 'done'

const maintenanceOf = ({ message = null, retryAfterSeconds }: BulkInput) =>
  MaintenanceRequest.parse({ message, retryAfterSeconds })

export const ACTIONS: Readonly<Record<BulkOperation, BulkAction>> = {
  'tenants.suspend': { predict: transition('suspend'), run: (tenants, id) => tenants.suspend(id) },
  'tenants.activate': { predict: transition('activate'), run: (tenants, id) => tenants.activate(id) },
  'tenants.delete': { predict: transition('delete'), run: (tenants, id) => tenants.delete(id) },
  'tenants.restore': { predict: transition('restore'), run: (tenants, id) => tenants.restore(id) },
  'tenants.enterMaintenance': {
    predict: changes(({ maintenance }, input) =>
      isDeepStrictEqual(maintenance && { ...maintenance, since: null }, { ...maintenanceOf(input), since: null }),
    ),
    run: (tenants, id, input) => tenants.enterMaintenance(id, maintenanceOf(input)),
  },
  'tenants.exitMaintenance': {
    predict: changes(({ maintenance }) => maintenance === null),
    run: (tenants, id) => tenants.exitMaintenance(id),
  },
  'tenants.setPlan': {
    predict: changes(({ metadata }, { plan }) => metadata.plan === plan),
    run: (tenants, id, { plan = '' }) => tenants.setPlan(id, plan),
  },
}
