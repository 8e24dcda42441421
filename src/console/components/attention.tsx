/** Conditions that need an operator, the worst first: on Home, and on the page of a tenant. */
import type { Result } from '../api/contract.ts'
import { referenceHref } from '../routing/reference.ts'
import { Badge, Status } from './base/status.tsx'
import { formatNumber } from './base/text.ts'
import { Time } from './base/time.tsx'

type Entry = Result<'attention.list'>['data'][number]

interface AttentionProps {
  readonly entries: readonly Entry[]
  /** Whether the tenant of an entry is left out. */
  readonly isOfTenant?: boolean
}

export const Attention = ({ entries, isOfTenant = false }: AttentionProps) => (
  <ul className="attention">
    {entries.map((entry, index) => {
      const { kind, severity, tenantId, title, since, count } = entry
      const link = referenceHref(entry, tenantId)
      return (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries of one kind and tenant can be equal
        <li key={`${kind} ${tenantId} ${index}`}>
          <Status state={severity} tone={severity === 'high' ? 'bad' : 'warning'}>
            <span className="hidden">{severity}: </span>
            {link ? <a href={link}>{title}</a> : title}
          </Status>
          {count > 1 && <Badge tone={severity === 'high' ? 'bad' : 'warning'}>{formatNumber(count)}</Badge>}
          {!isOfTenant && tenantId && <code className="faint">{tenantId}</code>}
          <span className="faint attention-since">
            <Time at={since} />
          </span>
        </li>
      )
    })}
  </ul>
)
