/** Columns of the list of tenants: its own, and those of modules. */
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Absent, Badge, Status } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import type { Column } from '../../../console/components/lists/columns.ts'
import { lazyView } from '../../../console/components/slots.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import type { TenantColumn } from '../../../console/module.ts'
import { tenantColumns } from '../../../console/routing/registry.ts'
import { planOf, type Tenant } from '../base/tenant.ts'
import { text } from '../base/text.ts'

const SHOWN_DOMAINS = 2
const { columns: titles } = text

const own: readonly Column<Tenant>[] = [
  {
    key: 'tenant',
    title: titles.tenant,
    width: '32%',
    cell: ({ id, name }) => (
      <span className="two">
        <span>{name}</span>
        <code>{id}</code>
      </span>
    ),
  },
  {
    key: 'status',
    title: titles.status,
    cell: ({ status, maintenance }) => (
      <>
        <Status state={status} />
        {maintenance && <Badge tone="warning">{text.inMaintenance}</Badge>}
      </>
    ),
  },
  { key: 'plan', title: titles.plan, cell: (tenant) => planOf(tenant) ?? <Absent /> },
  { key: 'isolation', title: titles.isolation, cell: ({ isolation }) => isolation, isDefault: false },
  { key: 'placement', title: titles.placement, cell: ({ placement }) => placement, isMinor: true },
  {
    key: 'domains',
    title: titles.domains,
    isDefault: false,
    cell: ({ domains }) => {
      if (domains.length === 0) return <Absent />
      const more = domains.length - SHOWN_DOMAINS
      return (
        <span title={domains.join('\n')}>
          {domains.slice(0, SHOWN_DOMAINS).join(', ')}
          {more > 0 && <span className="faint"> {text.further(more)}</span>}
        </span>
      )
    },
  },
  {
    key: 'maintenance',
    title: text.maintenance,
    isDefault: false,
    cell: ({ maintenance }) => <Time at={maintenance?.since} />,
  },
  {
    key: 'failure',
    title: titles.failure,
    isDefault: false,
    cell: ({ failure }) => (failure ? <code>{failure.code}</code> : <Absent />),
  },
  time('activated', text.activatedAt, ({ activatedAt }) => activatedAt),
  time('suspended', text.suspendedAt, ({ suspendedAt }) => suspendedAt),
  time('deleted', text.deletedAt, ({ deletedAt }) => deletedAt),
  time('updated', titles.updated, ({ updatedAt }) => updatedAt),
  { ...time('created', titles.created, ({ createdAt }) => createdAt), isDefault: true },
]

function time(key: string, title: string, timeOf: (tenant: Tenant) => string | null): Column<Tenant> {
  return { key, title, align: 'end', isDefault: false, cell: (tenant) => <Time at={timeOf(tenant)} /> }
}

/** A column of a module: its source reads for all cells, which observe the result. */
function columnOf({ key, title, align, read, input = {}, view }: TenantColumn): Column<Tenant> {
  const View = lazyView(view)
  const column = { key, title, ...(align ? { align } : {}), isDefault: false }
  if (read === undefined) return { ...column, cell: (tenant) => <View tenant={tenant} data={undefined} /> }
  const Cell = ({ tenant }: { tenant: Tenant }) => (
    <View tenant={tenant} data={useOperation(read, input, { enabled: false }).data} />
  )
  const Source = () => {
    const { data, error, refetch } = useOperation(read, input)
    return error && !data ? <ProblemView error={error} onRetry={refetch} isCompact /> : null
  }
  return { ...column, cell: (tenant) => <Cell tenant={tenant} />, Source }
}

/** Times are at the end. */
export const columnsOfTenants = (): readonly Column<Tenant>[] => {
  const ofModules = tenantColumns()
    .filter((one) => !own.some(({ key }) => key === one.key))
    .map(columnOf)
  return [...own.slice(0, -1), ...ofModules, ...own.slice(-1)]
}
