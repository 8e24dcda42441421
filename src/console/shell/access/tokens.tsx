/** List of API tokens, and the panel for a new one. */
import { menuEntriesOf } from '../../components/actions.tsx'
import { Button } from '../../components/base/button.tsx'
import { Empty, PageHeader } from '../../components/base/page.tsx'
import { Badge } from '../../components/base/status.tsx'
import { Time } from '../../components/base/time.tsx'
import { type Column, Table } from '../../components/lists/table.tsx'
import { type Item, useList } from '../../data/queries.ts'
import { isPermitted } from '../../data/session.ts'
import { useOpen } from '../../routing/open.ts'
import { NewToken } from './new-token.tsx'
import { text } from './text.ts'

type Token = Item<'tokens.list'>

const SHOWN = 3

const columns: readonly Column<Token>[] = [
  { key: 'name', title: text.columns.name, width: '22%', cell: ({ name }) => name },
  { key: 'may', title: text.columns.may, width: '26%', cell: ({ may }) => <Values values={may} /> },
  {
    key: 'tenants',
    title: text.columns.tenants,
    cell: ({ tenants }) => (tenants ? <Values values={tenants} /> : text.allTenants),
  },
  {
    key: 'lastUsed',
    title: text.columns.lastUsed,
    cell: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} /> : <span className="faint">{text.never}</span>),
  },
  { key: 'expires', title: text.columns.expires, cell: ({ expiresAt }) => <Expiry at={expiresAt} /> },
  { key: 'creator', title: text.columns.creator, isMinor: true, cell: ({ creator }) => creator.name },
  {
    key: 'created',
    title: text.columns.created,
    isMinor: true,
    cell: ({ createdAt }) => <Time at={createdAt} />,
    align: 'end',
  },
]

const Values = ({ values }: { values: readonly string[] }) => (
  <span className="values" title={values.join('\n')}>
    {values.slice(0, SHOWN).map((value) => (
      <code key={value}>{value}</code>
    ))}
    {values.length > SHOWN && <span className="faint">{text.further(values.length - SHOWN)}</span>}
  </span>
)

function Expiry({ at }: { at: string | null }) {
  if (!at) return <span className="faint">{text.never}</span>
  return Date.parse(at) < Date.now() ? <Badge tone="bad">{text.expired}</Badge> : <Time at={at} />
}

export default function Tokens() {
  const panel = useOpen()
  const list = useList('tokens.list', {})
  const openNew = isPermitted('tokens.create') && (
    <Button variant="primary" icon="plus" onClick={() => panel.open('new')}>
      {text.newToken}
    </Button>
  )
  return (
    <div className="with-panel">
      <div>
        <PageHeader title={text.tokens}>{openNew}</PageHeader>
        <Table
          label={text.tokens}
          columns={columns}
          list={list}
          kind="token"
          idOf={({ id }) => id}
          nameOf={({ name }) => name}
          menuOf={(token) => menuEntriesOf('token', token)}
          empty={
            <Empty title={text.tokensEmpty} actions={openNew}>
              {text.tokensEmptyText}
            </Empty>
          }
        />
      </div>
      {panel.id === 'new' && <NewToken onClose={panel.close} />}
    </div>
  )
}
