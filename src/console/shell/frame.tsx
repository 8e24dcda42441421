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
import { expiredStore, newVersionStore } from '../data/session.ts'
import { useStore } from '../data/store.ts'
import { listenToKeys } from '../keys/keys.ts'
import { focusAfterNavigation } from '../routing/focus.ts'
import { href } from '../routing/links.ts'
import { bars } from '../routing/registry.ts'
import { Outlet } from '../routing/router.tsx'
import { Navigation } from './navigation.tsx'
import { text } from './text.ts'

const Layers = lazy(() => load(() => import('./layers.tsx')))

export function Frame() {
  const isIdle = useIdle()
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
          {isIdle && (
            <Suspense>
              <Layers />
            </Suspense>
          )}
        </div>
      </main>
    </div>
  )
}

/** Whether the browser was idle once. A pointer or key loads the layers earlier. */
function useIdle(): boolean {
  const [isIdle, setIdle] = useState(false)
  useEffect(() => {
    const done = () => {
      setIdle(true)
      void loadMenus()
    }
    const early = new AbortController()
    addEventListener('pointerdown', done, { once: true, signal: early.signal })
    addEventListener('keydown', done, { once: true, signal: early.signal })
    const timer = setTimeout(() => ('requestIdleCallback' in window ? requestIdleCallback(done) : done()), 300)
    return () => {
      early.abort()
      clearTimeout(timer)
    }
  }, [])
  return isIdle
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
