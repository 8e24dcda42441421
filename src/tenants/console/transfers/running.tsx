/** Card of Home: running transfers. */
import { Card } from '../../../console/components/base/page.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { href } from '../../../console/routing/links.ts'
import { hrefOf } from './columns.tsx'
import { TransferProgress } from './progress.tsx'
import { text } from './text.ts'

const BUSY_MS = 2_000

export default function Running() {
  const { data } = useOperation(
    'transfers.listAll',
    { query: { state: 'running', limit: 5 } },
    { refetchInterval: ({ state }) => (state.data?.data.length ? BUSY_MS : 15_000) },
  )
  return (
    <Card title={text.running} href={href('/transfers')}>
      {data?.data.length === 0 && <p className="faint">{text.noneRunning}</p>}
      <ul className="running">
        {data?.data.map((transfer) => (
          <li key={transfer.id}>
            <p className="lead-line">
              <a href={hrefOf(transfer)}>
                {text.transferOf(transfer.kind)} · {transfer.tenantId}
              </a>
              <span className="faint">{text.phases[transfer.phase]}</span>
            </p>
            <TransferProgress transfer={transfer} />
          </li>
        ))}
      </ul>
    </Card>
  )
}
