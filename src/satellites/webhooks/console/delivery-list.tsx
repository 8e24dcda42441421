/** Deliveries in a table, with filters whose values are in the address. */
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { IncidentLinks } from '../../../console/components/attention.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Icon } from '../../../console/components/base/icon.tsx'
import { Empty } from '../../../console/components/base/page.tsx'
import { Badge, Status, type Tone } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { FilterTime } from '../../../console/components/lists/filters.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import type { List } from '../../../console/data/queries.ts'
import { incidentLinks } from '../../../console/routing/registry.ts'
import { useSetSearch } from '../../../console/routing/router.tsx'
import { type Delivery, hrefOf, kindOf, type ListedDelivery, type Owner, ownerOf } from './api.ts'
import { text } from './text.ts'

const TONES: Readonly<Record<Delivery['state'], Tone>> = {
  pending: 'progress',
  delivering: 'progress',
  retry_scheduled: 'warning',
  delivered: 'good',
  failed: 'bad',
}

export const DeliveryState = ({ state }: { state: Delivery['state'] }) => (
  <Status state={state} tone={TONES[state]}>
    {text.states[state]}
  </Status>
)

/** Last status of a delivery, or that there was no response. */
const Response = ({ delivery: { lastStatus, attemptCount } }: { delivery: Delivery }) =>
  lastStatus !== null ? (
    <code>{lastStatus}</code>
  ) : (
    <span className="faint">{attemptCount > 0 ? text.noResponse : '–'}</span>
  )

const event: Column<ListedDelivery> = {
  key: 'event',
  title: text.columns.event,
  width: '30%',
  cell: ({ event }) => <span className="long">{event}</span>,
}
const state: Column<ListedDelivery> = {
  key: 'state',
  title: text.columns.state,
  cell: ({ state }) => <DeliveryState state={state} />,
}
const tenant: Column<ListedDelivery> = {
  key: 'tenant',
  title: text.columns.tenant,
  cell: ({ owner, tenantId }) => (
    <span className="owner">
      <code>{owner ?? tenantId ?? '–'}</code>
      {owner === null && <Badge>{text.ofHost}</Badge>}
    </span>
  ),
}
const others: readonly Column<ListedDelivery>[] = [
  { key: 'response', title: text.columns.response, cell: (delivery) => <Response delivery={delivery} /> },
  { key: 'attempts', title: text.columns.attempts, align: 'end', cell: ({ attemptCount }) => attemptCount },
  { key: 'id', title: text.id, isDefault: false, cell: ({ id }) => <code>{id}</code> },
  {
    key: 'nextRetry',
    title: text.nextRetry,
    align: 'end',
    isDefault: false,
    cell: ({ nextRetryAt }) => <Time at={nextRetryAt} />,
  },
  {
    key: 'delivered',
    title: text.deliveredAt,
    align: 'end',
    isDefault: false,
    cell: ({ deliveredAt }) => <Time at={deliveredAt} />,
  },
  { key: 'dispatched', title: text.columns.dispatched, align: 'end', cell: ({ createdAt }) => <Time at={createdAt} /> },
]
const receiver: Column<ListedDelivery> = {
  key: 'receiver',
  title: text.columns.receiver,
  width: '28%',
  cell: ({ url }) => (
    <span className="long" title={url ?? undefined}>
      {url ?? '–'}
    </span>
  ),
}
const COLUMNS = [event, state, ...others]
const COLUMNS_OF_ALL = [event, state, tenant, receiver, ...others]

/** Deliveries of tenants and of the host have the actions of tenants' deliveries, which read the owner of the row. */
const ALL = ''

interface Filters {
  readonly tenantId?: string | undefined
  readonly state?: Delivery['state'] | undefined
  readonly event?: string | undefined
  readonly status?: string | undefined
  readonly sameResponseAs?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

interface DeliveryListProps {
  /** Undefined: deliveries of all tenants and of the host. */
  readonly owner?: Owner
  readonly list: List<ListedDelivery>
  readonly query: Filters
}

export function DeliveryList({ owner, list, query }: DeliveryListProps) {
  const setSearch = useSetSearch()
  const isFiltered = Object.values(query).some((value) => value !== undefined)
  const clear = () => setSearch(Object.fromEntries(Object.keys(query).map((key) => [key, undefined])))
  const failure = oldestFailure(list.rows ?? [])
  const ownerOfRow = (delivery: ListedDelivery) => (owner === undefined ? ownerOf(delivery) : owner)
  return (
    <>
      <FilterBar query={query} hasTenant={owner === undefined} clear={isFiltered ? clear : undefined} list={list} />
      {failure && incidentLinks().length > 0 && (
        <p className="oldest-failure">
          <span>{text.oldestFailure}</span> <Time at={failure.createdAt} />{' '}
          <IncidentLinks since={failure.createdAt} name={failure.event} />
        </p>
      )}
      <Table
        label={text.deliveries}
        name="deliveries"
        kind={kindOf(owner === undefined ? ALL : owner, 'delivery')}
        columns={owner === undefined ? COLUMNS_OF_ALL : COLUMNS}
        list={list}
        idOf={({ id }) => id}
        nameOf={({ event, id }) => `${event} ${id}`}
        hrefOf={(delivery) => hrefOf(ownerOfRow(delivery), delivery.webhookId, delivery.id)}
        menuOf={(delivery) => menuEntriesOf(kindOf(ownerOfRow(delivery), 'delivery'), delivery)}
        empty={
          isFiltered ? (
            <Empty title={text.noMatch} actions={<Button onClick={clear}>{text.clear}</Button>}>
              {text.noMatchText}
            </Empty>
          ) : (
            <Empty title={text.noDeliveries}>{text.noDeliveriesText}</Empty>
          )
        }
      />
    </>
  )
}

/** Of the loaded deliveries: about when the failures began. */
const oldestFailure = (deliveries: readonly ListedDelivery[]): ListedDelivery | undefined =>
  deliveries
    .filter(({ state }) => state === 'failed' || state === 'retry_scheduled')
    .toSorted((one, other) => Date.parse(one.createdAt) - Date.parse(other.createdAt))[0]

interface FilterBarProps {
  readonly query: Filters
  readonly hasTenant: boolean
  readonly clear: (() => void) | undefined
  readonly list: List<ListedDelivery>
}

const CLASSES = ['2', '3', '4', '5']

function FilterBar({ query, hasTenant, clear, list }: FilterBarProps) {
  const { tenantId, state, event, status, sameResponseAs, from, to } = query
  const setSearch = useSetSearch()
  const states = [[undefined, text.all], ...Object.entries(text.states)] as const
  const isClass = status === undefined || status === 'none' || status.endsWith('xx')
  return (
    <div className="toolbar filters">
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset would be a form control */}
      <div className="chips" role="group" aria-label={text.stateFilter}>
        {states.map(([value, title]) => (
          <button
            type="button"
            key={title}
            className="chip"
            aria-pressed={value === state}
            data-key={value === 'failed' ? 'f' : undefined}
            onClick={() => setSearch({ state: value })}
          >
            {title}
          </button>
        ))}
      </div>
      <select
        aria-label={text.statusFilter}
        value={status ?? ''}
        onChange={({ target }) => setSearch({ status: target.value || undefined })}
      >
        <option value="">{text.anyStatus}</option>
        {CLASSES.map((first) => (
          <option key={first} value={`${first}xx`}>
            {text.statusClass(first)}
          </option>
        ))}
        <option value="none">{text.noResponse}</option>
        {!isClass && <option value={status}>{status}</option>}
      </select>
      <TextFilter
        label={text.eventFilter}
        value={event}
        pattern="[a-z0-9_]+(\.[a-z0-9_]+)*"
        onChange={(value) => setSearch({ event: value })}
      />
      {hasTenant && (
        <TextFilter
          label={text.tenantFilter}
          value={tenantId}
          pattern="[a-z0-9][a-z0-9_\-]{0,47}"
          onChange={(value) => setSearch({ tenantId: value })}
        />
      )}
      <div className="filter-window">
        {Object.entries({ from, to } as const).map(([key, value]) => (
          <FilterTime
            key={key}
            hasTime
            className="filter-time"
            label={text[key as 'from' | 'to']}
            value={value}
            onChange={(time) => setSearch({ [key]: time })}
          />
        ))}
      </div>
      {sameResponseAs && (
        <button
          type="button"
          className="active-filter"
          aria-label={text.remove(text.sameAs(sameResponseAs))}
          onClick={() => setSearch({ sameResponseAs: undefined })}
        >
          {text.sameAs(sameResponseAs)}
          <Icon name="close" size={12} />
        </button>
      )}
      {clear && (
        <Button variant="quiet" onClick={clear}>
          {text.clear}
        </Button>
      )}
      <p className="count" role="status">
        {list.rows && !list.isStale ? text.shown(list.rows.length, list.loadMore !== undefined) : ''}
      </p>
    </div>
  )
}

interface TextFilterProps {
  readonly label: string
  readonly value: string | undefined
  readonly pattern: string
  readonly onChange: (value: string | undefined) => void
}

/** Writes to the address when it is left, or on `Enter`. */
function TextFilter({ label, value, pattern, onChange }: TextFilterProps) {
  const write = (field: HTMLInputElement) => {
    const next = field.value.trim() || undefined
    if (next !== value && field.reportValidity()) onChange(next)
  }
  return (
    <input
      key={value ?? ''}
      type="text"
      className="filter-text"
      aria-label={label}
      placeholder={label}
      defaultValue={value}
      pattern={pattern}
      autoComplete="off"
      autoCapitalize="none"
      spellCheck={false}
      onBlur={({ currentTarget }) => write(currentTarget)}
      onKeyDown={({ key, currentTarget }) => key === 'Enter' && write(currentTarget)}
    />
  )
}
