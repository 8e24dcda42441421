/** Storage of a tenant: location, backups, and its transfers. */
import { menuEntriesOf, startAction } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty, Facts, Section } from '../../../console/components/base/page.tsx'
import { Badge, Status } from '../../../console/components/base/status.tsx'
import { formatBytes } from '../../../console/components/base/text.ts'
import { ExactTime } from '../../../console/components/base/time.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { type Item, useList, useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { MigrationsOfTenant } from '../migrations/of-tenant.tsx'
import { columnsOf, hrefOf } from './columns.tsx'
import { hasEnded, PROGRESS_MS } from './progress.tsx'
import { text } from './text.ts'

type Backup = Item<'backups.list'>

/** Actions of the tenant that concern its storage. */
const STORAGE = ['tenants.move', 'tenants.undoMove', 'tenants.clone']

const columns: readonly Column<Backup>[] = [
  {
    key: 'created',
    title: text.columns.created,
    width: '26%',
    cell: ({ createdAt }) => <ExactTime at={createdAt} />,
  },
  {
    key: 'state',
    title: text.columns.state,
    cell: ({ state, isScheduled, failure }) => (
      <span className="lead-line">
        <Status state={state} />
        {isScheduled && <Badge>{text.scheduled}</Badge>}
        {failure && <code>{failure.code}</code>}
      </span>
    ),
  },
  {
    key: 'size',
    title: text.columns.size,
    cell: ({ sizeBytes }) => (sizeBytes === null ? <span className="faint">–</span> : formatBytes(sizeBytes)),
  },
  { key: 'note', title: text.columns.note, isLong: true, cell: ({ note }) => note ?? <span className="faint">–</span> },
]

export default function Storage() {
  const { id = '' } = useParams()
  const { data: tenant } = useOperation('tenants.get', { params: { id } })
  if (tenant?.id !== id) return null
  const actions = actionsOf('tenant', tenant).filter(({ name }) => STORAGE.includes(name))
  return (
    <>
      <Section
        title={text.location}
        actions={actions.map((action) => (
          <Button key={action.name} onClick={() => startAction(action, tenant)}>
            {action.title}
          </Button>
        ))}
      >
        <div className="narrow">
          <Facts facts={{ [text.isolation]: tenant.isolation, [text.placement]: tenant.placement }} />
        </div>
      </Section>
      <Backups id={id} />
      {isPermitted('transfers.list') && <Transfers id={id} />}
      {isPermitted('migrations.list') && <MigrationsOfTenant id={id} />}
    </>
  )
}

function Backups({ id }: { id: string }) {
  const { data: tenant } = useOperation('tenants.get', { params: { id } })
  const list = useList('backups.list', { params: { id } })
  const create = tenant && actionsOf('tenant', tenant).find(({ name }) => name === 'backups.create')
  const button = create && (
    <Button variant="primary" onClick={() => startAction(create, tenant)}>
      {create.title}
    </Button>
  )
  return (
    <Section title={text.backups} actions={list.rows && list.rows.length > 0 && button}>
      <Table
        label={text.backups}
        kind="backup"
        columns={columns}
        list={list}
        idOf={(backup) => backup.id}
        menuOf={(backup) => menuEntriesOf('backup', backup)}
        empty={
          <Empty title={text.noBackups} actions={button}>
            {text.noBackupsText}
          </Empty>
        }
      />
    </Section>
  )
}

function Transfers({ id }: { id: string }) {
  const running = useOperation('transfers.list', { params: { id }, query: { limit: 1 } })
  const isRunning = running.data?.data.some((one) => !hasEnded(one)) ?? false
  const list = useList('transfers.list', { params: { id } }, isRunning ? { refetchInterval: PROGRESS_MS } : {})
  return (
    <Section title={text.transfers}>
      <Table
        label={text.transfers}
        kind="transfer"
        columns={columnsOf({ hasTenant: false })}
        list={list}
        idOf={(transfer) => transfer.id}
        nameOf={({ kind }) => text.transferOf(kind)}
        hrefOf={hrefOf}
        menuOf={(transfer) => menuEntriesOf('transfer', transfer)}
        empty={<Empty title={text.noTransfers}>{text.noTransfersText}</Empty>}
      />
    </Section>
  )
}
