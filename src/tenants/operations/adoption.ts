/** Operations on the adoption of existing storage, and on its release. */
import { Reply } from '../../kernel/api/operation.ts'
import { AdoptionPlan, AdoptionPlanRequest, AdoptionRequest, Released } from '../adoption/requests.ts'
import { NotAdoptable } from '../isolation/adoption.ts'
import { NotSupported } from '../isolation/driver.ts'
import { operation } from '../part.ts'
import { TenantExists, TenantNotFound, TenantState } from '../tenant/errors.ts'
import { TenantRecord } from '../tenant/tenant.ts'
import { byId, getTenant, tenant } from './tenant-reads.ts'

const planAdoption = operation({
  name: 'tenants.planAdoption',
  method: 'POST',
  path: '/adoption-plan',
  changesStorage: false,
  summary: 'Plan the adoption of existing storage',
  description:
    'Compares the storage with the result of the migrations up to `baseline` and with the rules of isolation, and lists every ' +
    'statement. Changes nothing. `POST /tenants/adopt` executes the plan with this `digest`.',
  body: AdoptionPlanRequest,
  reply: AdoptionPlan,
  errors: [NotAdoptable, NotSupported],
  handle: ({ adoptions }, { body }) => adoptions.plan(body),
})

interface ShownPlan extends Omit<AdoptionPlan, 'id'> {
  /** The first line. */
  readonly head: string
  /** Further lists by their titles, before the statements. */
  readonly sections?: Readonly<Record<string, readonly string[]>>
}

/** For a terminal: the lists of the plan as lines. */
export function planText({ head, isolation, placement, storage, digest, ...plan }: ShownPlan): string {
  const { reasons, warnings, differences, statements, sections = {} } = plan
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', title, ...lines.map((line) => `  ${line.replaceAll(/\p{Cc}/gu, ' ')}`)]
  const shown = differences.map(
    ({ object, expected, actual, isAccepted }) =>
      `${object}${isAccepted ? ' (accepted)' : ''}: storage ${actual ?? '-'}, migrations ${expected ?? '-'}`,
  )
  return [
    head,
    `storage   ${storage} (${isolation} on ${placement})`,
    `digest    ${digest}`,
    ...section('Reasons against the adoption', reasons),
    ...section('Differences from the migrations', shown),
    ...section('Warnings', warnings),
    ...Object.entries(sections).flatMap(([title, lines]) => section(title, lines)),
    ...section(
      'Statements',
      statements.map((statement) => `${statement};`),
    ),
    '',
  ].join('\n')
}

export const adoptionOperations = [
  planAdoption,
  operation({
    name: 'tenants.adopt',
    method: 'POST',
    path: '/tenants/adopt',
    changesStorage: true,
    summary: 'Adopt existing storage as a tenant',
    description:
      'Executes a plan: owners and rights are changed in one transaction at the server, and no row is copied. The tenant is `active` ' +
      'afterwards. A catalog that has changed since the plan is rejected.',
    body: AdoptionRequest,
    reply: TenantRecord,
    status: 201,
    changesOutside: true,
    errors: [NotAdoptable, NotSupported, TenantExists],
    command: {
      name: 'tenant:adopt',
      summary: 'Adopt existing storage as a tenant; without --yes, print the plan',
      arguments: { id: 'id of the new tenant' },
      options: {
        isolation: 'isolation driver whose storage it becomes',
        schema: 'existing schema, for schema-pg; for database-pg the schema of the application (public)',
        database: 'existing database, for database-pg',
        baseline: 'last of the migrations whose result the storage has',
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
        operation: planAdoption,
        request: ({ digest: _, ...body }) => body,
        text: (plan: AdoptionPlan) => planText({ ...plan, head: `tenant    ${plan.id}` }),
        failure: ({ isAdoptable, reasons }: AdoptionPlan) =>
          isAdoptable ? undefined : NotAdoptable(`The storage cannot be adopted: ${reasons.join('; ')}.`),
        body: ({ digest }: AdoptionPlan, body) => ({ digest, ...body }),
      },
    },
    handle: async ({ adoptions }, { body }) => {
      const adopted = await adoptions.adopt(body)
      return new Reply(201, adopted, { location: `/tenants/${adopted.id}` })
    },
  }),
  operation({
    name: 'tenants.release',
    method: 'POST',
    path: '/tenants/{id}/release',
    changesStorage: true,
    summary: 'Release an adopted tenant, and leave its storage as it was before the adoption',
    description:
      'Restores the owners and rights that the adoption has recorded, and purges everything else of the tenant. No row of the storage ' +
      'is changed.',
    params: byId,
    reply: Released,
    changesOutside: true,
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'tenant:release',
      summary: 'Release an adopted tenant, and leave its storage as it was before the adoption',
      arguments: tenant,
      question: async ({ params }, call) => {
        const { name, id }: TenantRecord = await call(getTenant, { params })
        return `Release the storage of ${name} (${id}), and purge everything else of the tenant?`
      },
    },
    handle: (tenants, { params }) => tenants.release(params.id),
  }),
]
