/** Filters of the audit log, with the values that its newest entries have. */
import type { ReactNode } from 'react'
import { FilterSelect, FilterTime } from '../../../console/components/lists/filters.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import type { SearchOf } from '../../../console/routing/search.ts'
import { text } from './text.ts'

interface FiltersProps {
  readonly tenantId: string | undefined
  readonly search: SearchOf<'auditLogs.listAll'>
  /** Whether the entries may be of any tenant. */
  readonly hasTenant: boolean
  readonly onChange: (patch: Readonly<Record<string, string | undefined>>) => void
  readonly children: ReactNode
}

export function Filters({ tenantId, search, hasTenant, onChange, children }: FiltersProps) {
  const { from, to, requestId } = search
  const { data } = useOperation('auditLogs.facets', { query: { tenantId, from, to } })
  const { actions = [], actors = [], targets = [] } = data ?? {}
  const counted = (facet: { value: string; count: number }) =>
    [facet.value, text.option(facet.value, facet.count)] as const
  const select = (key: 'action' | 'actor' | 'target', options: readonly (readonly [string, string])[]) => (
    <FilterSelect
      label={text.filters[key]}
      all={text.all}
      value={search[key]}
      options={options}
      onChange={(value) => onChange({ [key]: value })}
    />
  )
  return (
    <div className="toolbar filter-bar">
      {select('action', actions.map(counted))}
      {select(
        'actor',
        actors.map(({ id, name, count }) => [id, text.option(name, count)]),
      )}
      {select('target', targets.map(counted))}
      {hasTenant && tenantId !== undefined && (
        <FilterSelect
          label={text.filters.tenantId}
          all={text.all}
          value={tenantId}
          options={[]}
          onChange={(value) => onChange({ tenantId: value })}
        />
      )}
      {requestId !== undefined && (
        <FilterSelect
          label={text.filters.requestId}
          all={text.all}
          value={requestId}
          options={[]}
          onChange={(value) => onChange({ requestId: value })}
        />
      )}
      <FilterTime label={text.filters.from} value={from} onChange={(value) => onChange({ from: value })} />
      <FilterTime label={text.filters.to} value={to} onChange={(value) => onChange({ to: value })} />
      {children}
    </div>
  )
}
