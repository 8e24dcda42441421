/** Bar on every screen while an impersonation of the operator is active: user, time left, end. The key ends the newest one. */
import { useEffect, useState } from 'react'
import { Button } from '../../../console/components/base/button.tsx'
import { Icon } from '../../../console/components/base/icon.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { useSession } from '../../../console/data/session.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { endImpersonation, type Impersonation, newestStore, stateOf } from './impersonation.ts'
import { text } from './text.ts'

const MAX_READ = 200

export default function Bar() {
  const { name } = useSession()
  const { data } = useOperation('impersonations.listAll', { query: { active: 'true', limit: MAX_READ } })
  const now = useSecond(data !== undefined && data.data.length > 0)
  const own = (data?.data ?? []).filter((one) => one.actor.name === name && stateOf(one) === 'active')
  const [newest] = own
  useEffect(() => newestStore.set(newest), [newest])
  if (own.length === 0) return null
  return (
    <section className="impersonation-bars" aria-label={text.bar}>
      {own.map((one) => (
        <Line key={one.sessionId} one={one} now={now} hasKey={one === newest} />
      ))}
    </section>
  )
}

function Line({ one, now, hasKey }: { one: Impersonation; now: number; hasKey: boolean }) {
  const { userId, tenantId, expiresAt } = one
  return (
    <p className="bar" data-tone="warning">
      <Icon name="person" />
      <span className="bar-text">
        {text.actingAs} <strong>{userId}</strong> {text.of} <a href={tenantHref(tenantId)}>{tenantId}</a> ·{' '}
        {timeLeft(expiresAt, now)}
      </span>
      <Button onClick={() => endImpersonation(one)}>
        {text.end}
        {hasKey && <kbd>{text.endKey}</kbd>}
      </Button>
    </p>
  )
}

function timeLeft(expiresAt: string, now: number): string {
  const seconds = Math.max(Math.ceil((Date.parse(expiresAt) - now) / 1_000), 0)
  return seconds > 120 ? text.minutesLeft(Math.floor(seconds / 60)) : text.secondsLeft(seconds)
}

/** The present time, read again each second while it is needed. */
function useSecond(isNeeded: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isNeeded) return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 1_000)
    return () => clearInterval(timer)
  }, [isNeeded])
  return now
}
