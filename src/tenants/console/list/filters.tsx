/** Filters of the list of tenants: status with counts, and further members on request. */
import { useState } from 'react'
import type { Query, Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { Chips } from '../../../console/components/lists/chips.tsx'
import { ActiveFilters, FilterTime, without } from '../../../console/components/lists/filters.tsx'
import { Select } from '../../../console/components/select.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import type { Tenant } from '../base/tenant.ts'
import { text } from '../base/text.ts'

type Filter = Omit<Partial<Query<'tenants.list'>>, 'limit' | 'cursor' | 'sort'>
type Counts = Result<'tenants.counts'>['data']

const MEMBERS = [
  'status',
  'q',
  'plan',
  'isolation',
  'placement',
  'inMaintenance',
  'includeDeleted',
  'createdFrom',
  'createdTo',
] as const
const FURTHER = MEMBERS.slice(2)
/** `metadata.crmId=4711` of the address selects tenants by a member of their metadata. */
const METADATA = 'metadata.'

/** The filter in the address; members without a value are left out. */
export function useFilter(): { readonly filter: Filter; readonly isFiltered: boolean; readonly clear: () => void } {
  const search = useSearch('tenants.list')
  const setSearch = useSetSearch()
  const isFilter = (key: string) => (MEMBERS as readonly string[]).includes(key) || key.startsWith(METADATA)
  const filter = Object.fromEntries(Object.entries(search).filter(([key]) => isFilter(key)))
  const none = without(Object.keys(filter))
  return { filter, isFiltered: Object.keys(filter).length > 0, clear: () => setSearch(none) }
}

/** @param count number of tenants shown, for the screen reader and the end of the line */
export function Filters({ count }: { count: string }) {
  const search = useSearch('tenants.list')
  const setSearch = useSetSearch()
  const { data, isFetching } = useOperation('tenants.counts', {})
  const counts = data?.data ?? []
  const active = FURTHER.filter((key) => search[key] !== undefined).length
  const metadata = Object.entries(search)
    .filter(([key]) => key.startsWith(METADATA))
    .map(([key, value]) => ({ key, label: key, value: String(value) }))
  const [isOpen, setOpen] = useState(active > 0)
  const { all, ...statuses } = text.statuses
  const choices = (Object.entries(statuses) as [Tenant['status'], string][]).map(([value, title]) => ({
    value,
    title,
    count: countOf(counts, 'status', value),
  }))
  // Without a filter, the list leaves deleted tenants out.
  const present = counts.filter(({ by, value }) => by === 'status' && value !== 'deleted')
  return (
    <>
      <Button icon="filter" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {active > 0 ? text.filtersActive(active) : text.filters}
      </Button>
      <Select
        label={text.sort}
        none={text.sorts['-createdAt']}
        value={search.sort === '-createdAt' ? undefined : search.sort}
        options={(['name', '-updatedAt'] as const).map((value) => [value, text.sorts[value]])}
        onChange={(sort) => setSearch({ sort })}
      />
      {metadata.length > 0 && <ActiveFilters filters={metadata} onRemove={(keys) => setSearch(without(keys))} />}
      <p className="count" role="status">
        {count}
      </p>
      <div className="toolbar-row">
        <Chips
          label={text.statusFilter}
          all={all}
          allCount={data && present.reduce((sum, one) => sum + one.count, 0)}
          choices={choices}
          value={search.status}
          onChange={(status) => setSearch({ status })}
          isPending={isFetching && !data}
        />
      </div>
      {isOpen && <Further counts={counts} />}
    </>
  )
}

function Further({ counts }: { counts: Counts }) {
  const { plan, isolation, placement, inMaintenance, includeDeleted, createdFrom, createdTo } =
    useSearch('tenants.list')
  const setSearch = useSetSearch()
  const values = { plan, isolation, placement }
  return (
    <fieldset className="further">
      <legend className="hidden">{text.filters}</legend>
      {(['plan', 'isolation', 'placement'] as const).map((by) => (
        <Select
          key={by}
          label={text[by]}
          none={text.any}
          value={values[by]}
          options={optionsOf(counts, by, values[by])}
          onChange={(value) => setSearch({ [by]: value })}
        />
      ))}
      <Select
        label={text.maintenance}
        none={text.any}
        value={inMaintenance}
        options={[
          ['true', text.inMaintenance],
          ['false', text.notInMaintenance],
        ]}
        onChange={(value) => setSearch({ inMaintenance: value })}
      />
      <Select
        label={text.deletedTenants}
        none={text.withoutDeleted}
        value={includeDeleted === 'true' ? includeDeleted : undefined}
        options={[['true', text.withDeleted]]}
        onChange={(value) => setSearch({ includeDeleted: value })}
      />
      <FilterTime
        className="select"
        label={text.createdFrom}
        value={createdFrom}
        onChange={(value) => setSearch({ createdFrom: value })}
      />
      <FilterTime
        className="select"
        label={text.createdTo}
        value={createdTo}
        onChange={(value) => setSearch({ createdTo: value })}
      />
    </fieldset>
  )
}

const countOf = (counts: Counts, by: Counts[number]['by'], value: string): number | undefined =>
  counts.find((one) => one.by === by && one.value === value)?.count

/** Values with tenants, and the present value. */
function optionsOf(counts: Counts, by: Counts[number]['by'], value: string | undefined): [string, string][] {
  const found = counts
    .filter((one) => one.by === by)
    .map((one): [string, string] => [one.value, text.option(one.value, one.count)])
  return value === undefined || found.some(([one]) => one === value) ? found : [...found, [value, value]]
}
