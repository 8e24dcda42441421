/** Conditions that need an operator, the worst first: on Home, and on the page of a tenant. */
import type { Result } from '../api/contract.ts'
import { referenceHref } from '../routing/reference.ts'
import { incidentLinks } from '../routing/registry.ts'
import { Badge, Status } from './base/status.tsx'
import { formatNumber } from './base/text.ts'
import { Time } from './base/time.tsx'

type Entry = Result<'attention.list'>['data'][number]

interface AttentionProps {
  readonly entries: readonly Entry[]
  /** Whether the tenant of an entry is left out. */
  readonly isOfTenant?: boolean
}

/**
 * Links of modules about the time before a condition began.
 *
 * @param name of the condition, for screen readers
 */
export const IncidentLinks = ({ since, name }: { since: string; name: string }) =>
  incidentLinks().map(({ title, hrefOf }) => (
    <a key={title} className="incident-link" href={hrefOf(since)}>
      {title}
      <span className="hidden">: {name}</span>
    </a>
  ))

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
          <span className="attention-since">
            {since && <IncidentLinks since={since} name={title} />}
            <span className="faint">
              <Time at={since} />
            </span>
          </span>
        </li>
      )
    })}
  </ul>
)
