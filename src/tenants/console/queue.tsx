/** Card: jobs of a tenant by queue. */
import { Card } from '../../console/components/base/page.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { text } from './base/text.ts'

export function Queue({ id }: { id: string }) {
  const { data } = useOperation('tenants.queue', { params: { id } })
  const queues = (data?.data ?? []).filter(({ waiting, active, failed }) => waiting + active + failed > 0)
  const { queue: name, waiting: waits, active: runs, failed: fails } = text.queueColumns
  return (
    <Card title={text.queue}>
      {queues.length === 0 ? (
        <p className="faint">{text.noJobs}</p>
      ) : (
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{name}</th>
              <th scope="col">{waits}</th>
              <th scope="col">{runs}</th>
              <th scope="col">{fails}</th>
            </tr>
          </thead>
          <tbody>
            {queues.map(({ queue, waiting, active, failed }) => (
              <tr key={queue}>
                <th scope="row">{queue}</th>
                <td>{waiting}</td>
                <td>{active}</td>
                <td>{failed}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  )
}
