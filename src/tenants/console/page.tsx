/** The frame of a tenant's page: header with state and actions, and the tabs. */
import { useEffect } from 'react'
import { menuEntriesOf, ObjectButtons, startAction } from '../../console/components/actions.tsx'
import { Button, Copyable } from '../../console/components/base/button.tsx'
import { Icon } from '../../console/components/base/icon.tsx'
import { PageHeader } from '../../console/components/base/page.tsx'
import { ProblemView } from '../../console/components/base/problem.tsx'
import { Badge, Status } from '../../console/components/base/status.tsx'
import { ExactTime, Time } from '../../console/components/base/time.tsx'
import { Skeleton } from '../../console/components/lists/table.tsx'
import { MenuTrigger } from '../../console/components/menu.tsx'
import { Slots } from '../../console/components/slots.tsx'
import { useOperation } from '../../console/data/queries.ts'
import { remember } from '../../console/data/recent.ts'
import { isPermitted } from '../../console/data/session.ts'
import { settings } from '../../console/data/settings.ts'
import { useCurrent } from '../../console/routing/current.ts'
import { tenantHref } from '../../console/routing/links.ts'
import { actionsOf, headerLines, tabs } from '../../console/routing/registry.ts'
import { Outlet, useParams, usePath } from '../../console/routing/router.tsx'
import { planOf, type Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

const INSTALLING_MS = 1_000

export default function TenantPage() {
  const { id = '' } = useParams()
  const {
    data: found,
    error,
    refetch,
  } = useOperation(
    'tenants.get',
    { params: { id } },
    { refetchInterval: (query) => (query.state.data?.status === 'provisioning' ? INSTALLING_MS : 15_000) },
  )
  const tenant = found?.id === id ? found : undefined
  useCurrent('tenant', tenant)
  const name = tenant?.name
  useEffect(() => {
    if (name !== undefined) remember({ kind: text.tenant, id, title: name, href: tenantHref(id) })
  }, [id, name])
  if (error && !tenant) {
    return (
      <>
        <PageHeader title={id} />
        <ProblemView error={error} onRetry={error.status === 404 ? undefined : refetch} />
      </>
    )
  }
  return (
    <>
      <Header id={id} tenant={tenant} />
      <Tabs id={id} />
      {tenant || !isPermitted('tenants.get') ? <Outlet /> : <Skeleton />}
    </>
  )
}

/** The same heading before and after the tenant is read, so that it keeps the focus. */
function Header({ id, tenant }: { id: string; tenant: Tenant | undefined }) {
  const tab = useTab()
  return (
    <>
      <PageHeader
        title={tenant?.name ?? id}
        {...(tab?.path ? { context: tab.title } : {})}
        lead={tenant && <Facts tenant={tenant} />}
      >
        {settings.links.map(({ title, url }) => (
          <a
            key={title}
            className="button"
            data-variant="plain"
            href={url.replaceAll('{id}', encodeURIComponent(id))}
            target="_blank"
            rel="noreferrer"
          >
            {title}
            <Icon name="external" />
          </a>
        ))}
        {tenant && <Actions tenant={tenant} />}
      </PageHeader>
      {tenant && <Notice tenant={tenant} />}
      <Slots entries={headerLines()} props={{ id }} />
    </>
  )
}

function Facts({ tenant }: { tenant: Tenant }) {
  const { id, status, isolation, placement, maintenance } = tenant
  const plan = planOf(tenant)
  return (
    <>
      <Copyable value={id} />
      <Status state={status} />
      {maintenance && <Badge tone="warning">{text.inMaintenance}</Badge>}
      {plan && <Badge>{plan}</Badge>}
      <span className="faint">
        {isolation} · {placement}
      </span>
    </>
  )
}

/** The usual next action as a button, and all in a menu. */
function Actions({ tenant }: { tenant: Tenant }) {
  const [next] = actionsOf('tenant', tenant).filter(
    ({ name, isDestructive }) => name.startsWith('tenants.') && !isDestructive,
  )
  const isUrgent = tenant.status !== 'active' || tenant.maintenance !== null
  const entries = menuEntriesOf('tenant', tenant)
  return (
    <>
      {isUrgent && next && (
        <Button variant="primary" onClick={() => startAction(next, tenant)}>
          {next.title}
        </Button>
      )}
      <ObjectButtons kind="tenant" object={tenant} name={tenant.name} />
      {entries.length > 0 && (
        <MenuTrigger label={text.tenantActions} entries={entries}>
          {text.actions}
          <Icon name="down" size={12} />
        </MenuTrigger>
      )}
    </>
  )
}

function Notice({ tenant: { status, failure, purgeAt, suspendedAt, maintenance } }: { tenant: Tenant }) {
  if (failure && status === 'failed') {
    return (
      <p className="notice" data-tone="bad">
        <strong>{text.installationFailed}.</strong> {failure.message} <code>{failure.code}</code>
      </p>
    )
  }
  if (status === 'deleted' && purgeAt) {
    return (
      <p className="notice" data-tone="warning">
        {text.deletedBanner} <ExactTime at={purgeAt} />.
      </p>
    )
  }
  if (status === 'suspended') {
    return (
      <p className="notice" data-tone="warning">
        {text.suspendedBanner} <Time at={suspendedAt} />
      </p>
    )
  }
  if (!maintenance) return null
  return (
    <p className="notice" data-tone="warning">
      {text.maintenance} {text.since} <Time at={maintenance.since} />
      {maintenance.message && <>: “{maintenance.message}”</>}
    </p>
  )
}

function Tabs({ id }: { id: string }) {
  const present = useTab()
  return (
    <nav className="tabs" aria-label={text.tabs}>
      {tabs().map(({ path, title }) => (
        <a key={path} href={tenantHref(id, path)} aria-current={path === present?.path ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  )
}

/** The listed tab of the present page, or of the page above it. */
function useTab() {
  const path = usePath().split('/').slice(3).join('/')
  return tabs()
    .filter((tab) => path === tab.path || (tab.path !== '' && path.startsWith(`${tab.path}/`)))
    .toSorted((a, b) => b.path.length - a.path.length)[0]
}
