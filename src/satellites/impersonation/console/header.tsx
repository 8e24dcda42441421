/** Line in the header of a tenant: active impersonations of other operators. */
import { Time } from '../../../console/components/base/time.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { useSession } from '../../../console/data/session.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { stateOf } from './impersonation.ts'
import { text } from './text.ts'

export default function Header({ id }: { id: string }) {
  const { name } = useSession()
  const { data } = useOperation('impersonations.list', { params: { id }, query: { active: 'true' } })
  const others = (data?.data ?? []).filter(
    (one) => one.tenantId === id && one.actor.name !== name && stateOf(one) === 'active',
  )
  return others.map(({ sessionId, userId, actor, expiresAt }) => (
    <p className="notice" data-tone="warning" key={sessionId}>
      {text.othersActFor(actor.name)} <a href={tenantHref(id, 'impersonations')}>{userId}</a> {text.until}{' '}
      <Time at={expiresAt} />
    </p>
  ))
}
