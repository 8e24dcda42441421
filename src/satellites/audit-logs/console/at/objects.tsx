/** The tenant and its objects at a time, as cards. A state that changed since then can be restored by the operations of its module. */
import type { ReactNode } from 'react'
import type { Result } from '../../../../console/api/contract.ts'
import { startAction } from '../../../../console/components/actions.tsx'
import { Button } from '../../../../console/components/base/button.tsx'
import { differencesOf } from '../../../../console/components/base/diff.tsx'
import { Card, Facts, Section } from '../../../../console/components/base/page.tsx'
import { Status } from '../../../../console/components/base/status.tsx'
import { ExactTime } from '../../../../console/components/base/time.tsx'
import { jsonOf, MAX_VALUE, shortened } from '../../../../console/components/base/value-text.ts'
import type { Action, Restoration } from '../../../../console/module.ts'
import { tenantHref } from '../../../../console/routing/links.ts'
import { restorationLimitOf, restorationsOf } from '../../../../console/routing/registry.ts'
import type { Restorable } from './restore.tsx'
import { text } from './text.ts'

export type TenantAt = Result<'tenants.at'>
type TenantObject = TenantAt['objects'][number]
type States = Readonly<Record<string, unknown>>

const KINDS = Object.keys(text.kinds) as (keyof typeof text.kinds)[]
/** Not registered: only this page starts it. */
const restore: Action<Restorable> = {
  name: 'auditLogs.restore',
  title: text.restore,
  target: 'state',
  needs: [],
  view: () => import('./restore.tsx'),
}

const nameOf = (target: string): string => target.slice(target.indexOf(':') + 1)

export function Objects({ at, hasEnd }: { at: TenantAt; hasEnd: boolean }) {
  const byKind = Map.groupBy(at.objects, ({ kind }) => kind)
  return (
    <>
      {at.tenant && <TenantCard at={at} state={at.tenant} hasEnd={hasEnd} />}
      {at.objects.length === 0 && <p className="faint">{text.noObjects}</p>}
      {KINDS.map((kind) => {
        const isChanged = at.changes.some(({ target }) => target.startsWith(`${kind}:`))
        const objects = byKind.get(kind) ?? []
        return (
          (objects.length > 0 || isChanged) && <Kind key={kind} kind={kind} objects={objects} at={at} hasEnd={hasEnd} />
        )
      })}
    </>
  )
}

function TenantCard({ at, state, hasEnd }: { at: TenantAt; state: States; hasEnd: boolean }) {
  const { name, status, maintenance, domains, isolation, placement, metadata } = state
  const { members } = text
  return (
    <Card title={text.tenant}>
      <Facts
        facts={{
          [members.name]: shown(name),
          [members.status]: typeof status === 'string' && <Status state={status} />,
          [members.plan]: at.plan,
          [members.maintenance]: maintenance ? <Maintenance state={maintenance as States} /> : text.notInMaintenance,
          [members.domains]: Array.isArray(domains) && domains.length > 0 ? domains.join(', ') : text.noDomains,
          [members.isolation]: shown(isolation),
          [members.placement]: shown(placement),
          [members.metadata]: shown(metadata),
        }}
      />
      <Restorations at={at} kind="tenant" target={`tenant:${at.tenantId}`} state={state} hasEnd={hasEnd} />
    </Card>
  )
}

const Maintenance = ({ state: { since, message } }: { state: States }) => (
  <>
    {text.inMaintenance}
    {typeof since === 'string' && (
      <>
        {' '}
        {text.since} <ExactTime at={since} />
      </>
    )}
    {typeof message === 'string' && <>: “{message}”</>}
  </>
)

interface KindProps {
  readonly kind: keyof typeof text.kinds
  readonly objects: readonly TenantObject[]
  readonly at: TenantAt
  readonly hasEnd: boolean
}

function Kind({ kind, objects, at, hasEnd }: KindProps) {
  const existing = objects.filter(({ state }) => state !== null)
  const absent = objects.filter(({ state }) => state === null)
  const limit = restorationLimitOf(kind)
  return (
    <Section title={text.kinds[kind]}>
      {limit && <p className="faint">{limit}</p>}
      <div className="cards">
        {existing.map((one) => (
          <ObjectCard key={one.target} object={one} at={at} hasEnd={hasEnd} />
        ))}
      </div>
      {absent.length > 0 && (
        <p className="faint">
          {text.absent} {absent.map(({ target }) => titleOf(target, at)).join(', ')}
        </p>
      )}
    </Section>
  )
}

/** The branding and the single sign-on of a tenant have its id as their name. Names of settings begin with it. */
function titleOf(target: string, { tenantId }: TenantAt): string {
  const name = nameOf(target)
  const kind = target.slice(0, target.indexOf(':')) as keyof typeof text.kinds
  if (name === tenantId) return text.kinds[kind]
  return kind === 'setting' ? name.replace(`${tenantId}/`, '') : name
}

function ObjectCard({ object, at, hasEnd }: { object: TenantObject; at: TenantAt; hasEnd: boolean }) {
  const { kind, target, state, isComplete, lastChange } = object
  if (!state) return null
  return (
    <Card title={titleOf(target, at)}>
      <Facts facts={Object.fromEntries(Object.entries(state).map(([member, value]) => [member, shown(value)]))} />
      {!isComplete && <p className="faint">{text.incomplete}</p>}
      {lastChange && (
        <Facts
          facts={{
            [text.lastChange]: (
              <a href={tenantHref(at.tenantId, 'audit', { open: lastChange.id })}>{lastChange.action}</a>
            ),
            [text.time]: <ExactTime at={lastChange.createdAt} />,
            [text.changedBy]: lastChange.actor.name,
          }}
        />
      )}
      <Restorations at={at} kind={kind} target={target} state={state} hasEnd={hasEnd} />
    </Card>
  )
}

const shown = (value: unknown): ReactNode =>
  value === null || value === undefined ? (
    <span className="faint">–</span>
  ) : typeof value === 'string' ? (
    shortened(value, MAX_VALUE)
  ) : (
    <code>{shortened(jsonOf(value), MAX_VALUE)}</code>
  )

interface RestorationsProps {
  readonly at: TenantAt
  readonly kind: string
  readonly target: string
  readonly state: States
  /** Whether the changes have an end before now. */
  readonly hasEnd: boolean
}

function Restorations({ at, kind, target, state, hasEnd }: RestorationsProps) {
  const { tenantId, time, changes, isTruncated } = at
  const offered = restorationsOf(kind).flatMap((restoration) => {
    const isChanged =
      hasEnd || isTruncated || changes.some((one) => one.target === target && isOfRestoration(restoration, one))
    return restoration.stateOf(state) && isChanged ? [restoration] : []
  })
  if (offered.length === 0) return null
  const title = kind === 'tenant' ? String(state.name) : titleOf(target, at)
  return (
    <div className="section-actions">
      {offered.map((restoration) => {
        const button = restoration.title ?? text.restore
        const restorable = { restoration, tenantId, name: nameOf(target), title, time, state }
        return (
          <Button
            key={button}
            aria-label={text.restoreOf(button, title)}
            onClick={() => void startAction(restore, restorable)}
          >
            {button}
          </Button>
        )
      })}
    </div>
  )
}

/** Whether a change is one of members that the restoration sets. */
const isOfRestoration = ({ stateOf }: Restoration, { before, after }: TenantAt['changes'][number]): boolean =>
  differencesOf(stateOf(before ?? {}), stateOf(after ?? {})).length > 0
