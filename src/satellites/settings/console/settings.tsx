/** Settings of a tenant. The value of a secret is not part of the list. */
import { useMemo } from 'react'
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Empty } from '../../../console/components/base/page.tsx'
import { Badge } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { jsonOf, MAX_LABEL, shortened } from '../../../console/components/base/value-text.ts'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { type List, useOperation } from '../../../console/data/queries.ts'
import { useParams } from '../../../console/routing/router.tsx'
import type { Target } from './setting.ts'
import { text } from './text.ts'

const columns: readonly Column<Target>[] = [
  {
    key: 'name',
    title: text.columns.name,
    width: '32%',
    cell: ({ name, isSecret }) => (
      <>
        <code>{name}</code> {isSecret && <Badge>{text.secret}</Badge>}
      </>
    ),
  },
  { key: 'value', title: text.columns.value, width: '36%', isLong: true, cell: (setting) => <Value of={setting} /> },
  {
    key: 'source',
    title: text.columns.source,
    cell: ({ source }) => (source ? text.sources[source] : <span className="faint">–</span>),
  },
  { key: 'updated', title: text.columns.updated, cell: ({ updatedAt }) => <Time at={updatedAt} />, align: 'end' },
]

function Value({ of: { isSecret, isSet, value } }: { of: Target }) {
  if (!isSet) return <span className="faint">{text.notSet}</span>
  return <code className="setting-value">{isSecret ? text.isSet : shortened(jsonOf(value), MAX_LABEL)}</code>
}

export default function Settings() {
  const { id = '' } = useParams()
  const { data, error, refetch, isPlaceholderData } = useOperation('settings.list', { params: { id } })
  const rows = useMemo(
    () => (isPlaceholderData ? undefined : data?.data.map((setting) => ({ ...setting, tenantId: id }))),
    [data, id, isPlaceholderData],
  )
  const list: List<Target> = {
    rows,
    error,
    isStale: false,
    isLoadingMore: false,
    loadMore: undefined,
    loadEarlier: undefined,
    retry: () => void refetch(),
  }
  return (
    <>
      <p className="tab-lead">{text.intro}</p>
      <Table
        label={text.settings}
        columns={columns}
        list={list}
        kind="setting"
        idOf={({ name }) => name}
        menuOf={(setting) => menuEntriesOf('setting', setting)}
        empty={<Empty title={text.empty}>{text.emptyText}</Empty>}
      />
    </>
  )
}
