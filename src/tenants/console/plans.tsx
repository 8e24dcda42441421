/** Plans: limits, backups, and the number of tenants of each. */
import { Empty, PageHeader } from '../../console/components/base/page.tsx'
import { ProblemView } from '../../console/components/base/problem.tsx'
import { Badge } from '../../console/components/base/status.tsx'
import { formatNumber } from '../../console/components/base/text.ts'
import { Skeleton } from '../../console/components/lists/table.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { href } from '../../console/routing/links.ts'
import { text } from './base/text.ts'

export default function Plans() {
  const { data: plans, error, refetch } = useOperation('plans.list', {})
  const { data: counts } = useOperation('tenants.counts', {})
  const isOfHost = plans?.resolvedBy === 'host'
  const countOf = (name: string) => counts?.data.find(({ by, value }) => by === 'plan' && value === name)?.count
  const all = Object.entries(plans?.definitions ?? {})
  return (
    <>
      <PageHeader title={text.plans} />
      {error && !plans && <ProblemView error={error} onRetry={refetch} />}
      {!plans && !error && <Skeleton />}
      {isOfHost && <p className="notice">{text.plansOfHost}</p>}
      {plans && all.length === 0 && <Empty title={text.noPlans} />}
      {all.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keys
        <section className="wide" aria-label={text.plans} tabIndex={0}>
          <table className="simple">
            <thead>
              <tr>
                <th scope="col">{text.plan}</th>
                <th scope="col">{text.limits}</th>
                <th scope="col">{text.backupSchedule}</th>
                {!isOfHost && <th scope="col">{text.tenantsOf}</th>}
              </tr>
            </thead>
            <tbody>
              {all.map(([name, { limits, backups }]) => {
                const count = countOf(name)
                return (
                  <tr key={name}>
                    <th scope="row">
                      <span className="lead-line">
                        {name}
                        {name === plans?.defaultPlan && <Badge>{text.defaultMark}</Badge>}
                      </span>
                    </th>
                    <td>
                      {Object.keys(limits).length === 0 ? (
                        <span className="faint">{text.noLimits}</span>
                      ) : (
                        Object.entries(limits).map(([quota, limit]) => (
                          <p key={quota}>
                            <code>{quota}</code> {formatNumber(limit)}
                          </p>
                        ))
                      )}
                    </td>
                    <td>{backups ? text.scheduleOf(backups) : <span className="faint">–</span>}</td>
                    {!isOfHost && (
                      <td>
                        {count !== undefined && <a href={href('/tenants', { plan: name })}>{formatNumber(count)}</a>}
                      </td>
                    )}
                  </tr>
                )
              })}
            </tbody>
          </table>
        </section>
      )}
    </>
  )
}
