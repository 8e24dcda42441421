/** Table of impersonations: of one tenant, or of all. */
import type { ReactNode } from 'react'
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty } from '../../../console/components/base/page.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { Chips } from '../../../console/components/lists/chips.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import type { List } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { type Impersonation, stateOf } from './impersonation.ts'
import { text } from './text.ts'

const TONES = { active: 'warning', ended: 'neutral', expired: 'neutral' } as const

const user: Column<Impersonation> = {
  key: 'user',
  title: text.columns.user,
  width: '18%',
  cell: ({ userId }) => userId,
}
const tenant: Column<Impersonation> = {
  key: 'tenant',
  title: text.columns.tenant,
  cell: ({ tenantId }) => <a href={tenantHref(tenantId, 'impersonations')}>{tenantId}</a>,
}
const further: readonly Column<Impersonation>[] = [
  {
    key: 'state',
    title: text.columns.state,
    cell: (one) => (
      <Status state={stateOf(one)} tone={TONES[stateOf(one)]}>
        {text.states[stateOf(one)]}
      </Status>
    ),
  },
  { key: 'actor', title: text.columns.actor, cell: ({ actor }) => actor.name },
  { key: 'reason', title: text.columns.reason, width: '28%', isLong: true, cell: ({ reason }) => reason },
  {
    key: 'started',
    title: text.columns.started,
    isMinor: true,
    cell: ({ createdAt }) => <Time at={createdAt} />,
  },
  {
    key: 'ends',
    title: text.columns.ends,
    cell: ({ endedAt, expiresAt }) => <Time at={endedAt ?? expiresAt} />,
    align: 'end',
  },
]

interface Props {
  readonly list: List<Impersonation>
  readonly hasTenants: boolean
  readonly isFiltered: boolean
  readonly actions?: ReactNode
}

export function Impersonations({ list, hasTenants, isFiltered, actions }: Props) {
  const setSearch = useSetSearch()
  return (
    <Table
      label={text.impersonations}
      name="impersonations"
      columns={[user, ...(hasTenants ? [tenant] : []), ...further]}
      list={list}
      kind="impersonation"
      idOf={({ sessionId }) => sessionId}
      nameOf={({ userId }) => userId}
      menuOf={(one) => menuEntriesOf('impersonation', one)}
      empty={
        isFiltered ? (
          <Empty
            title={text.emptyFilter}
            actions={
              <Button onClick={() => setSearch({ active: undefined, tenantId: undefined })}>{text.clear}</Button>
            }
          />
        ) : (
          <Empty title={text.empty} actions={actions}>
            {text.emptyText}
          </Empty>
        )
      }
    />
  )
}

export function StateFilter() {
  const { active } = useSearch('impersonations.list')
  const setSearch = useSetSearch()
  return (
    <Chips
      label={text.filter}
      all={text.all}
      choices={text.filters}
      value={active}
      onChange={(value) => setSearch({ active: value })}
    />
  )
}
