/** Columns of the list of tenants: its own, and those of modules. */
import { Badge, Status } from '../../../console/components/base/status.tsx'
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
  { key: 'plan', title: titles.plan, cell: (tenant) => planOf(tenant) ?? <span className="faint">–</span> },
  { key: 'isolation', title: titles.isolation, cell: ({ isolation }) => isolation, isDefault: false },
  { key: 'placement', title: titles.placement, cell: ({ placement }) => placement, isMinor: true },
  {
    key: 'domains',
    title: titles.domains,
    isDefault: false,
    cell: ({ domains }) => {
      if (domains.length === 0) return <span className="faint">–</span>
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
  { key: 'failure', title: titles.failure, isDefault: false, cell: ({ failure }) => <Code value={failure?.code} /> },
  time('activated', text.activatedAt, ({ activatedAt }) => activatedAt),
  time('suspended', text.suspendedAt, ({ suspendedAt }) => suspendedAt),
  time('deleted', text.deletedAt, ({ deletedAt }) => deletedAt),
  time('updated', titles.updated, ({ updatedAt }) => updatedAt),
  { ...time('created', titles.created, ({ createdAt }) => createdAt), isDefault: true },
]

function time(key: string, title: string, timeOf: (tenant: Tenant) => string | null): Column<Tenant> {
  return { key, title, align: 'end', isDefault: false, cell: (tenant) => <Time at={timeOf(tenant)} /> }
}

const Code = ({ value }: { value: string | undefined }) =>
  value === undefined ? <span className="faint">–</span> : <code>{value}</code>

/** A column of a module: its source reads for all cells, which observe the result. */
function columnOf({ key, title, align, read, input = {}, view }: TenantColumn): Column<Tenant> {
  const View = lazyView(view)
  const Observed = ({ tenant }: { tenant: Tenant }) => (
    <View tenant={tenant} data={useOperation(read, input, { enabled: false }).data} />
  )
  return {
    key,
    title,
    ...(align ? { align } : {}),
    isDefault: false,
    ...(read === undefined
      ? { cell: (tenant) => <View tenant={tenant} data={undefined} /> }
      : {
          cell: (tenant) => <Observed tenant={tenant} />,
          Source() {
            void useOperation(read, input).data
            return null
          },
        }),
  }
}

/** The one before the last is for columns of modules: times are at the end. */
export const columnsOfTenants = (): readonly Column<Tenant>[] => {
  const ofModules = tenantColumns()
    .filter((one) => !own.some(({ key }) => key === one.key))
    .map(columnOf)
  return [...own.slice(0, -1), ...ofModules, ...own.slice(-1)]
}
