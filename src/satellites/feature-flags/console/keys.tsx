/** Keys of the flags of all tenants, with the number of tenants by state. */
import type { Result } from '../../../console/api/contract.ts'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { useList } from '../../../console/data/queries.ts'
import { href } from '../../../console/routing/links.ts'
import { text } from './text.ts'

type Counts = Result<'featureFlags.listKeys'>['data'][number]

const count = (key: 'tenants' | 'on' | 'inRollout' | 'off'): Column<Counts> => ({
  key,
  title: text.columns[key],
  align: 'end',
  cell: (counts) => (counts[key] === 0 ? <span className="faint">0</span> : formatNumber(counts[key])),
})

const columns: readonly Column<Counts>[] = [
  { key: 'key', title: text.columns.key, width: '44%', cell: ({ key }) => <code className="long-word">{key}</code> },
  count('tenants'),
  count('on'),
  count('inRollout'),
  count('off'),
]

export default function FlagKeys() {
  const list = useList('featureFlags.listKeys', { query: { limit: 100 } })
  return (
    <>
      <PageHeader title={text.flags}>
        <p className="count faint" role="status">
          {list.rows ? text.count(list.rows.length, list.loadMore !== undefined) : ''}
        </p>
      </PageHeader>
      <Table
        label={text.flags}
        name="flags"
        columns={columns}
        list={list}
        idOf={({ key }) => key}
        hrefOf={({ key }) => href(`/flags/${encodeURIComponent(key)}`)}
        empty={<Empty title={text.emptyAll}>{text.emptyText}</Empty>}
      />
    </>
  )
}
