/** Transfers over tenants: filters by state, kind and placement; the running ones are read again each second. */
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { Chips } from '../../../console/components/lists/chips.tsx'
import { Table } from '../../../console/components/lists/table.tsx'
import { Select } from '../../../console/components/select.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { columnsOf, hrefOf } from './columns.tsx'
import { text } from './text.ts'

const KINDS = ['backup', 'restore', 'rehearsal', 'clone', 'move', 'undo'] as const

export default function Transfers() {
  const { state, kind, placement } = useSearch('transfers.listAll')
  const setSearch = useSetSearch()
  const { data: placements } = useOperation('placements.list', {})
  const list = useList('transfers.listAll', { query: { state, kind, placement } }, { refetchInterval: 3_000 })
  const isFiltered = state !== undefined || kind !== undefined || placement !== undefined
  const clear = () => setSearch({ state: undefined, kind: undefined, placement: undefined })
  return (
    <>
      <PageHeader title={text.transfers} />
      <div className="toolbar">
        <Chips
          label={text.filter}
          all={text.all}
          choices={(Object.entries(text.states) as [keyof typeof text.states, string][]).map(([value, title]) => {
            return { value, title }
          })}
          value={state}
          onChange={(value) => setSearch({ state: value })}
        />
        <Select
          label={text.kind}
          none={text.any}
          value={kind}
          options={KINDS.map((one) => [one, text.transferOf(one)])}
          onChange={(value) => setSearch({ kind: value })}
        />
        {placements && placements.data.length > 1 && (
          <Select
            label={text.placement}
            none={text.any}
            value={placement}
            options={placements.data.map(({ name }) => [name, name])}
            onChange={(value) => setSearch({ placement: value })}
          />
        )}
      </div>
      <Table
        label={text.transfers}
        name="transfers"
        kind="transfer"
        columns={columnsOf({ hasTenant: true })}
        list={list}
        idOf={({ id }) => id}
        nameOf={({ kind, tenantId }) => `${text.transferOf(kind)} ${tenantId}`}
        hrefOf={hrefOf}
        menuOf={(transfer) => menuEntriesOf('transfer', transfer)}
        empty={
          isFiltered ? (
            <Empty title={text.noMatch} actions={<Button onClick={clear}>{text.clear}</Button>} />
          ) : (
            <Empty title={text.noTransfers}>{text.noTransfersText}</Empty>
          )
        }
      />
    </>
  )
}
