/** Card of Home while there is no tenant. */
import { LinkButton } from '../../console/components/base/button.tsx'
import { Card, Empty } from '../../console/components/base/page.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { href } from '../../console/routing/links.ts'
import { text } from './base/text.ts'
import { SampleData } from './list/sample-data.tsx'

export default function FirstTenant() {
  const { data: tenants } = useOperation('tenants.list', { query: { limit: 1 } })
  if (tenants?.data.length !== 0) return null
  const actions = (
    <>
      <LinkButton variant="primary" icon="plus" href={href('/tenants', { open: 'new' })}>
        {text.newTenant}
      </LinkButton>
      <SampleData />
    </>
  )
  return (
    <Card title={text.tenants}>
      <Empty title={text.empty} actions={actions}>
        {text.emptyText}
      </Empty>
    </Card>
  )
}
