/** The frame around every screen: skip link, navigation, bars, content, and the layers above it. */
import { lazy, Suspense, useEffect, useState } from 'react'
import { ActionHost } from '../components/actions.tsx'
import { Button, LinkButton } from '../components/base/button.tsx'
import { Icon } from '../components/base/icon.tsx'
import { Empty, PageHeader } from '../components/base/page.tsx'
import { ProblemView } from '../components/base/problem.tsx'
import { loadMenus, MenuHost } from '../components/menu.tsx'
import { Slots } from '../components/slots.tsx'
import { reachableStore } from '../data/call.ts'
import { followChanges } from '../data/changes.ts'
import { load } from '../data/load.ts'
import { useIsReading } from '../data/queries.ts'
import { expiredStore, newVersionStore } from '../data/session.ts'
import { useStore } from '../data/store.ts'
import { listenToKeys } from '../keys/keys.ts'
import { focusAfterNavigation } from '../routing/focus.ts'
import { href } from '../routing/links.ts'
import { bars } from '../routing/registry.ts'
import { Outlet } from '../routing/router.tsx'
import { Navigation } from './navigation.tsx'
import { text } from './text.ts'

/** A read that takes longer does not delay the layers. */
const SLOW_READ_MS = 3_000

const Layers = lazy(() => load(() => import('./layers.tsx')))

export function Frame() {
  useEffect(listenToKeys, [])
  useEffect(followChanges, [])
  useEffect(focusAfterNavigation, [])
  return (
    <div className="frame">
      <a className="skip" href="#content">
        {text.skip}
      </a>
      <Navigation />
      <main id="content" tabIndex={-1}>
        <Bars />
        <ModuleBars />
        <div className="content">
          <Outlet />
        </div>
        <div id="layers">
          <ActionHost />
          <MenuHost />
          <LayersWhenIdle />
        </div>
      </main>
    </div>
  )
}

/** Loads the layers once the first data is shown and the browser is idle; a pointer, a key or the end of the session loads them earlier. */
function LayersWhenIdle() {
  const [isWanted, setWanted] = useState(false)
  const isReading = useIsReading()
  const isExpired = useStore(expiredStore)
  useEffect(() => {
    if (isWanted) return
    const done = () => {
      setWanted(true)
      void loadMenus()
    }
    const early = new AbortController()
    addEventListener('pointerdown', done, { once: true, signal: early.signal })
    addEventListener('keydown', done, { once: true, signal: early.signal })
    const whenIdle = () => ('requestIdleCallback' in window ? requestIdleCallback(done) : done())
    const timer = setTimeout(whenIdle, isExpired ? 0 : isReading ? SLOW_READ_MS : 300)
    return () => {
      early.abort()
      clearTimeout(timer)
    }
  }, [isWanted, isReading, isExpired])
  return (
    isWanted && (
      <Suspense>
        <Layers />
      </Suspense>
    )
  )
}

/** Bars above the content: the service does not respond, or runs another version. */
function Bars() {
  const isReachable = useStore(reachableStore)
  const isExpired = useStore(expiredStore)
  const version = useStore(newVersionStore)
  return (
    <div role="status">
      {!isReachable && !isExpired && (
        <p className="bar" data-tone="bad">
          <Icon name="warning" /> {text.unreachable}
        </p>
      )}
      {version && (
        <p className="bar">
          {text.newVersion(version)} <Button onClick={() => location.reload()}>{text.reload}</Button>
        </p>
      )}
    </div>
  )
}

/** Bars of modules. They are no live region: a bar may count seconds. */
const ModuleBars = () => <Slots entries={bars()} props={{}} />

export const NotFound = () => (
  <>
    <PageHeader title={text.notFound} />
    <Empty title={text.notFound} actions={<LinkButton href={href('/')}>{text.toHome}</LinkButton>}>
      {text.notFoundText}
    </Empty>
  </>
)

export const Failed = ({ error }: { error: unknown }) => <ProblemView error={error} onRetry={() => location.reload()} />
