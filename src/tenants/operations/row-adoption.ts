/** Operations on the adoption of tables with the rows of many tenants, and on its release. */
import {
  AdoptedTables,
  ReleasedTables,
  RowAdoptionPlan,
  RowAdoptionPlanRequest,
  RowAdoptionRequest,
  RowReleaseRequest,
} from '../adoption/row-requests.ts'
import { NotAdoptable } from '../isolation/adoption.ts'
import { NotSupported } from '../isolation/driver.ts'
import { operation } from '../part.ts'
import { TenantExists, TenantState } from '../tenant/errors.ts'
import { planText } from './adoption.ts'

const planTables = operation({
  name: 'tenants.planTableAdoption',
  method: 'POST',
  path: '/table-adoption-plan',
  changesStorage: false,
  summary: 'Plan the adoption of tables with the rows of many tenants',
  description:
    'Compares the tables with the result of the migrations up to `baseline` and with the rules of row level security, reads their ' +
    'tenants, and lists every statement and lock. Changes nothing. `POST /tenants/adopt-tables` executes the plan with this `digest`.',
  body: RowAdoptionPlanRequest,
  reply: RowAdoptionPlan,
  errors: [NotAdoptable, NotSupported],
  handle: ({ adoptions }, { body }) => adoptions.tables.plan(body),
})

const textOf = ({ tenants, firstTenants, locks, ...plan }: RowAdoptionPlan): string => {
  const shown = firstTenants.map(({ id, name }) => `${id}: ${name}`)
  const more = tenants > shown.length ? [`… and ${tenants - shown.length} more`] : []
  return planText({ ...plan, head: `tenants   ${tenants}`, sections: { Tenants: [...shown, ...more], Locks: locks } })
}

export const rowAdoptionOperations = [
  planTables,
  operation({
    name: 'tenants.adoptTables',
    method: 'POST',
    path: '/tenants/adopt-tables',
    changesStorage: true,
    summary: 'Adopt existing tables with the rows of many tenants',
    description:
      'Executes a plan: owners, rights, defaults and policies are changed in one transaction at the server, and no row is changed. All ' +
      'tenants are `active` afterwards. Tables or tenants that have changed since the plan are rejected.',
    body: RowAdoptionRequest,
    reply: AdoptedTables,
    changesOutside: true,
    errors: [NotAdoptable, NotSupported, TenantExists],
    command: {
      name: 'tenant:adopt:tables',
      summary: 'Adopt existing tables with the rows of many tenants; without --yes, print the plan',
      options: {
        from: 'table with the tenants; default: each value of the tenant column is a tenant',
        idColumn: 'column of this table with the ids (id)',
        nameColumn: 'column of this table with the names; default: the ids',
        baseline: 'last of the migrations whose result the tables have',
        acceptDifferences: {
          flags: '--accept-differences <object...>',
          summary: 'object that may differ, as named by the plan',
        },
        digest: {
          summary: 'digest of the plan to execute; default: that of the plan which is printed',
          required: false,
        },
      },
      plan: {
        operation: planTables,
        request: ({ digest: _, ...body }) => body,
        text: textOf,
        failure: ({ isAdoptable, reasons }: RowAdoptionPlan) =>
          isAdoptable ? undefined : NotAdoptable(`The storage cannot be adopted: ${reasons.join('; ')}.`),
        body: ({ digest }: RowAdoptionPlan, body) => ({ digest, ...body }),
      },
    },
    handle: ({ adoptions }, { body }) => adoptions.tables.adopt(body),
  }),
  operation({
    name: 'tenants.releaseTables',
    method: 'POST',
    path: '/tenants/release-tables',
    changesStorage: true,
    summary: 'Release adopted tables, and leave them as they were before the adoption',
    description:
      'Restores owners, rights, defaults and row level security as the adoption has recorded them, and deletes all tenants of the ' +
      'tables. Jobs purge the rest of each tenant. No row of the tables is changed.',
    body: RowReleaseRequest,
    reply: ReleasedTables,
    changesOutside: true,
    errors: [NotSupported, TenantState],
    command: {
      name: 'tenant:release:tables',
      summary: 'Release adopted tables, and leave them as they were before the adoption',
      question: ({ body: { placement = 'main' } }) =>
        `Release the tables on "${placement}", and purge all their tenants without their rows?`,
    },
    handle: ({ adoptions }, { body }) => adoptions.tables.release(body),
  }),
]
