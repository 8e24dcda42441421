/** Card: the newest backup of a tenant. */
import { Card } from '../../console/components/base/page.tsx'
import { Status } from '../../console/components/base/status.tsx'
import { formatBytes } from '../../console/components/base/text.ts'
import { Time } from '../../console/components/base/time.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { tenantHref } from '../../console/routing/links.ts'
import { text } from './base/text.ts'

export function LastBackup({ id }: { id: string }) {
  const { data } = useOperation('backups.list', { params: { id }, query: { limit: 1 } })
  if (!data) return null
  const [last] = data.data
  return (
    <Card title={text.lastBackup} href={tenantHref(id, 'storage')}>
      {last ? (
        <p className="lead-line">
          <Status state={last.state} />
          <Time at={last.createdAt} />
          {last.sizeBytes !== null && <span className="faint">{formatBytes(last.sizeBytes)}</span>}
        </p>
      ) : (
        <p className="faint">{text.noBackups}</p>
      )}
    </Card>
  )
}
