/** Impersonations of all tenants. */
import { Button } from '../../../console/components/base/button.tsx'
import { PageHeader } from '../../../console/components/base/page.tsx'
import { useList } from '../../../console/data/queries.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { Impersonations, StateFilter } from './list.tsx'
import { text } from './text.ts'

export default function AllImpersonations() {
  const { active, tenantId } = useSearch('impersonations.listAll')
  const setSearch = useSetSearch()
  const list = useList('impersonations.listAll', { query: { active, tenantId } })
  return (
    <>
      <PageHeader title={text.impersonations} />
      <div className="toolbar">
        <StateFilter />
        {tenantId && (
          <Button icon="close" onClick={() => setSearch({ tenantId: undefined })}>
            {text.ofTenant(tenantId)}
          </Button>
        )}
      </div>
      <Impersonations list={list} hasTenants isFiltered={active !== undefined || tenantId !== undefined} />
    </>
  )
}
