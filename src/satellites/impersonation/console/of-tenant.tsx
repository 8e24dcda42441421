/** Impersonations of one tenant, and the start of one. */
import { startAction } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useParams, useSearch } from '../../../console/routing/router.tsx'
import { Impersonations, StateFilter } from './list.tsx'

export default function OfTenant() {
  const { id = '' } = useParams()
  const { active } = useSearch('impersonations.list')
  const { data: tenant } = useOperation('tenants.get', { params: { id } })
  const list = useList('impersonations.list', { params: { id }, query: { active } })
  const start = tenant && actionsOf('tenant', tenant).find(({ name }) => name === 'impersonations.start')
  const button = start && (
    <Button variant="primary" onClick={() => startAction(start, tenant)}>
      {start.title}
    </Button>
  )
  return (
    <>
      <div className="toolbar">
        <StateFilter />
        <div className="toolbar-end">{button}</div>
      </div>
      <Impersonations list={list} hasTenants={false} isFiltered={active !== undefined} actions={button} />
    </>
  )
}
