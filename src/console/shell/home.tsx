/** Home: health of the service, and the cards of modules. */
import { lazy, Suspense, useMemo } from 'react'
import { Card, PageHeader } from '../components/base/page.tsx'
import { Status } from '../components/base/status.tsx'
import { useOperation } from '../data/queries.ts'
import { isPermitted } from '../data/session.ts'
import { href } from '../routing/links.ts'
import { homeCards } from '../routing/registry.ts'
import { text } from './text.ts'

export default function Home() {
  const cards = useMemo(() => homeCards().map(({ view }) => lazy(view)), [])
  return (
    <>
      <PageHeader title={text.home} />
      <div className="cards">
        {isPermitted('health.get') && <Health />}
        {cards.map((View, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the list of modules is constant
          <Suspense key={index}>
            <View />
          </Suspense>
        ))}
      </div>
    </>
  )
}

function Health() {
  const { data: health } = useOperation('health.get', {})
  const failed = Object.entries(health?.checks ?? {}).filter(([, { status }]) => status === 'fail')
  return (
    <Card title={text.health} href={href('/system')}>
      {health && <Status state={health.status}>{failed.length === 0 ? text.healthy : health.status}</Status>}
      <ul className="plain">
        {failed.map(([name, { message }]) => (
          <li key={name}>
            <Status state="fail">{name}</Status> {message}
          </li>
        ))}
      </ul>
    </Card>
  )
}
