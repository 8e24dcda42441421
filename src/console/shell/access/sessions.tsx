/** List of browser sessions. */
import { menuEntriesOf } from '../../components/actions.tsx'
import { Empty, PageHeader } from '../../components/base/page.tsx'
import { Time } from '../../components/base/time.tsx'
import { type Column, Table } from '../../components/lists/table.tsx'
import { type Item, useList } from '../../data/queries.ts'
import { text } from './text.ts'

type Session = Item<'sessions.list'>

const columns: readonly Column<Session>[] = [
  { key: 'name', title: text.columns.name, width: '26%', cell: ({ name }) => name },
  { key: 'lastUsed', title: text.columns.lastUsed, cell: ({ lastUsedAt }) => <Time at={lastUsedAt} /> },
  {
    key: 'address',
    title: text.columns.address,
    cell: ({ ip }) => (ip ? <code>{ip}</code> : <span className="faint">–</span>),
  },
  { key: 'token', title: text.columns.token, cell: ({ tokenId }) => (tokenId ? text.apiToken : text.configured) },
  { key: 'created', title: text.columns.created, isMinor: true, cell: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'expires', title: text.columns.expires, cell: ({ expiresAt }) => <Time at={expiresAt} />, align: 'end' },
]

export default function Sessions() {
  const list = useList('sessions.list', {})
  return (
    <>
      <PageHeader title={text.sessions} />
      <Table
        label={text.sessions}
        columns={columns}
        list={list}
        kind="session"
        idOf={({ id }) => id}
        nameOf={({ name }) => name}
        menuOf={(session) => menuEntriesOf('session', session)}
        empty={<Empty title={text.sessionsEmpty}>{text.sessionsEmptyText}</Empty>}
      />
    </>
  )
}
