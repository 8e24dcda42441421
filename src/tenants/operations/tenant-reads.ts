import { z } from 'zod'
import { Moment, MomentOrDate, Page, pageOf } from '../../kernel/api/page.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { operation, resource } from '../part.ts'
import { SORTS, type TenantFilter } from '../registry/registry.ts'
import { PlanResolvedByHost, TenantNotFound } from '../tenant/errors.ts'
import { STATUSES } from '../tenant/lifecycle.ts'
import { Placement, TenantId, TenantRecord } from '../tenant/tenant.ts'

export const byId = z.object({ id: TenantId })
const flag = z.enum(['true', 'false']).transform((text) => text === 'true')

export const tenantResource = resource({
  state: TenantRecord,
  lock: (tenants, { id }: z.output<typeof byId>) => tenants.lock(id),
})

/** Argument of commands. */
export const tenant = { id: 'id of the tenant' }

export const getTenant = operation({
  name: 'tenants.get',
  method: 'GET',
  path: '/tenants/{id}',
  summary: 'Read one tenant, also a deleted one',
  params: byId,
  reply: TenantRecord,
  resource: tenantResource,
  errors: [TenantNotFound],
  command: { name: 'tenant:show', summary: 'Show one tenant', arguments: tenant },
  handle: (tenants, { params }) => tenants.get(params.id),
})

const METADATA = 'metadata.'
const MAX_METADATA_FILTERS = 10
const MetadataText = z.string().max(1_024)

/** Parameters of the list. Its only others are `metadata.<key>`. */
const TenantQuery = z
  .object({
    status: z.enum(STATUSES).optional(),
    q: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .meta({ description: 'Part of an id, name or domain; with fewer than three characters, its beginning' }),
    includeDeleted: flag.optional().meta({ description: 'Include deleted ones; implied by `status=deleted`' }),
    plan: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .meta({ description: 'Only of this plan; the default plan includes tenants without a plan' }),
    isolation: z.string().min(1).max(64).optional().meta({ description: 'Only of this isolation driver' }),
    placement: Placement.optional().meta({ description: 'Only on this PostgreSQL server' }),
    inMaintenance: flag.optional().meta({ description: 'Only in maintenance, or only others' }),
    createdFrom: Moment.optional().meta({ description: 'Inclusive' }),
    createdTo: Moment.optional().meta({ description: 'Exclusive' }),
    sort: z.enum(SORTS).optional().meta({ description: 'Order of the list; `-` descending. Default: `-createdAt`' }),
    ...Page.shape,
  })
  .catchall(MetadataText.meta({ 'x-prefix': METADATA }))

const { includeDeleted, inMaintenance, createdFrom, createdTo } = TenantQuery.shape
const orBoolean = (schema: typeof includeDeleted) =>
  z.union([flag, z.boolean()]).optional().meta({ description: schema.description })
const orDate = (schema: typeof createdFrom) => MomentOrDate.optional().meta({ description: schema.description })

/** The query without pages, as text or with its values. */
export const TenantSelection = TenantQuery.omit({ limit: true, cursor: true })
  .extend({
    includeDeleted: orBoolean(includeDeleted),
    inMaintenance: orBoolean(inMaintenance),
    createdFrom: orDate(createdFrom),
    createdTo: orDate(createdTo),
  })
  .catchall(MetadataText)

/** Takes the parameters `metadata.<key>`, and rejects any other that the schema does not name. */
export function filterOf<Query extends z.output<typeof TenantSelection>>(
  query: Query,
  schema: z.ZodObject = TenantQuery,
): Query & Pick<TenantFilter, 'metadata'> {
  const known = new Set(Object.keys(schema.shape))
  const others = Object.entries(query).filter(([name]) => !known.has(name)) as [string, string][]
  const errors = others
    .filter(([name]) => !name.startsWith(METADATA) || name.length === METADATA.length)
    .map(([name]) => ({ path: name, message: 'unknown parameter' }))
  if (others.length > MAX_METADATA_FILTERS) {
    errors.push({ path: METADATA, message: `at most ${MAX_METADATA_FILTERS} parameters` })
  }
  if (errors.length > 0) throw invalid(errors)
  const metadata = Object.fromEntries(others.map(([name, value]) => [name.slice(METADATA.length), value]))
  const named = Object.fromEntries(Object.entries(query).filter(([name]) => known.has(name))) as Query
  return others.length > 0 ? { ...named, metadata } : named
}

/** `crmId=4711` of the option `--metadata` as the parameter `metadata.crmId`. */
function withMetadata({ metadata, ...query }: Readonly<Record<string, any>>) {
  if (metadata === undefined) return query
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(metadata) ?? []
  if (key === undefined) throw invalid([{ path: 'metadata', message: 'must be key=value' }])
  return { ...query, [METADATA + key]: value }
}

export const listTenants = operation({
  name: 'tenants.list',
  method: 'GET',
  path: '/tenants',
  summary: 'List tenants, the newest first',
  description:
    'A parameter `metadata.<key>` selects tenants whose metadata has this member with this text, such as `metadata.crmId=4711` for ' +
    '`"4711"` and `4711`; several select tenants with all of them. With `sort=name`, names are in the collation of the database.',
  query: TenantQuery,
  reply: pageOf(TenantRecord),
  errors: [PlanResolvedByHost],
  command: {
    name: 'tenant:list',
    options: {
      status: 'only those in this status',
      q: { flags: '--q <text>' },
      includeDeleted: 'include deleted ones',
      inMaintenance: 'only those in maintenance',
      createdFrom: { flags: '--created-from <moment>', summary: 'RFC 3339 or a date; inclusive' },
      createdTo: { flags: '--created-to <moment>', summary: 'RFC 3339 or a date; exclusive' },
      sort: `order of the list: ${SORTS.join(', ')}`,
      metadata: { flags: '--metadata <key=value>', summary: 'only with this member of the metadata' },
    },
    query: withMetadata,
    rows: ({ data }) =>
      data.map(({ id, name, status, isolation, placement, createdAt }) => {
        return { id, name, status, isolation, placement, createdAt }
      }),
  },
  handle: (tenants, { query }) => tenants.list(filterOf(query)),
})
