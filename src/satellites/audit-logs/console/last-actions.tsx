/** Card of Home: the newest entries of the signed-in operator. */
import { Card } from '../../../console/components/base/page.tsx'
import { Badge } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { useSession } from '../../../console/data/session.ts'
import { href } from '../../../console/routing/links.ts'
import { text } from './text.ts'

const MAX_SHOWN = 5

export default function LastActions() {
  const { name } = useSession()
  const { data } = useOperation('auditLogs.listAll', { query: { actor: name, limit: MAX_SHOWN } })
  return (
    <Card title={text.lastActions} href={href('/audit', { actor: name })}>
      {data?.data.length === 0 && <p className="faint">{text.noLastActions}</p>}
      <ul className="attention">
        {data?.data.map(({ id, action, target, outcome, createdAt }) => (
          <li key={id}>
            <a href={href('/audit', { open: id })}>{action}</a>
            {outcome === 'failure' && <Badge tone="bad">{text.outcomes.failure}</Badge>}
            <code className="faint">{target}</code>
            <span className="faint attention-since">
              <Time at={createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
