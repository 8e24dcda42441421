/** Columns of lists of transfers. */
import { Status } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { Time } from '../../../console/components/base/time.tsx'
import type { Column } from '../../../console/components/lists/table.tsx'
import { tenantHref } from '../../../console/routing/links.ts'
import { hasEnded, type TransferOf } from './progress.tsx'
import { text } from './text.ts'

export const hrefOf = ({ tenantId, id }: TransferOf): string =>
  tenantHref(tenantId, `transfers/${encodeURIComponent(id)}`)

const COLUMNS: readonly Column<TransferOf>[] = [
  { key: 'kind', title: text.columns.transfer, width: '20%', cell: ({ kind }) => text.transferOf(kind) },
  {
    key: 'state',
    title: text.columns.state,
    cell: (transfer) => (
      <span className="lead-line">
        <Status state={transfer.state} />
        {transfer.failure && <code>{transfer.failure.code}</code>}
        {!hasEnded(transfer) && <span className="faint">{text.phases[transfer.phase]}</span>}
      </span>
    ),
  },
  {
    key: 'tenant',
    title: text.columns.tenant,
    cell: ({ tenantId }) => <a href={tenantHref(tenantId)}>{tenantId}</a>,
  },
  {
    key: 'progress',
    title: text.columns.progress,
    isMinor: true,
    cell: ({ progress }) => <span className="faint">{text.progress(progress)}</span>,
  },
  {
    key: 'target',
    title: text.columns.target,
    isMinor: true,
    cell: ({ isolation, placement }) => `${isolation} · ${placement}`,
  },
  {
    key: 'attempts',
    title: text.columns.attempts,
    align: 'end',
    isDefault: false,
    cell: ({ attempts }) => formatNumber(attempts),
  },
  {
    key: 'started',
    title: text.columns.started,
    align: 'end',
    isDefault: false,
    cell: ({ startedAt }) => <Time at={startedAt} />,
  },
  {
    key: 'finished',
    title: text.columns.finished,
    align: 'end',
    isDefault: false,
    cell: ({ finishedAt }) => <Time at={finishedAt} />,
  },
  { key: 'created', title: text.columns.created, align: 'end', cell: ({ createdAt }) => <Time at={createdAt} /> },
]
const OF_TENANT = COLUMNS.filter(({ key }) => key !== 'tenant')

export const columnsOf = ({ hasTenant }: { hasTenant: boolean }): readonly Column<TransferOf>[] =>
  hasTenant ? COLUMNS : OF_TENANT
