/** Flags of a tenant: each with its switch, and the panel for a new flag. */
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty } from '../../../console/components/base/page.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { Panel } from '../../../console/components/panel.tsx'
import { useAction, useList } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { goTo, useParams } from '../../../console/routing/router.tsx'
import { type Flag, flagPath } from './model.ts'
import { Switch } from './switch.tsx'
import { text } from './text.ts'

const columns: readonly Column<Flag>[] = [
  { key: 'key', title: text.columns.key, width: '36%', cell: ({ key }) => <code className="long-word">{key}</code> },
  { key: 'state', title: text.columns.state, cell: (flag) => <Switch flag={flag} /> },
  {
    key: 'rollout',
    title: text.columns.rollout,
    cell: ({ rolloutPercent }) =>
      rolloutPercent === null ? <span className="faint">{text.everyone}</span> : text.percent(rolloutPercent),
  },
  {
    key: 'bucketKey',
    title: text.columns.bucketKey,
    cell: ({ bucketKey }) => (bucketKey ? <code>{bucketKey}</code> : <span className="faint">{text.callerKey}</span>),
  },
  { key: 'updated', title: text.columns.updated, align: 'end', cell: ({ updatedAt }) => <Time at={updatedAt} /> },
]

export default function Flags() {
  const { id = '' } = useParams()
  const panel = useOpen()
  const list = useList('featureFlags.list', { params: { id }, query: { limit: 100 } })
  const openNew = isPermitted('featureFlags.edit') && (
    <Button variant="primary" icon="plus" onClick={() => panel.open('new')}>
      {text.newFlag}
    </Button>
  )
  const hasRows = list.rows !== undefined && list.rows.length > 0
  return (
    <div className="with-panel">
      <div>
        {hasRows && (
          <div className="toolbar">
            {openNew}
            <p className="count" role="status">
              {text.count(list.rows?.length ?? 0, list.loadMore !== undefined)}
            </p>
          </div>
        )}
        <Table
          label={text.flags}
          name="flags-of-tenant"
          kind="flag"
          columns={columns}
          list={list}
          idOf={(flag) => flag.id}
          nameOf={({ key }) => key}
          hrefOf={({ key }) => tenantHref(id, flagPath(key))}
          menuOf={(flag) => menuEntriesOf('flag', flag)}
          empty={
            <Empty title={text.empty} actions={openNew}>
              {text.emptyText}
            </Empty>
          }
        />
      </div>
      {panel.id === 'new' && <NewFlag id={id} known={list.rows ?? []} onClose={panel.close} />}
    </div>
  )
}

/** A key that the tenant has opens its flag, and changes nothing. */
function NewFlag({ id, known, onClose }: { id: string; known: readonly Flag[]; onClose: () => void }) {
  const open = (key: string) => goTo(tenantHref(id, flagPath(key)))
  const create = useAction('featureFlags.edit', {
    done: (flag) => text.changed(flag),
    showsProblem: true,
    onDone: ({ key }) => open(key),
  })
  return (
    <Panel title={text.newFlag} onClose={onClose}>
      <Form
        operation="featureFlags.edit"
        submit={text.create}
        isRunning={create.isRunning}
        problem={create.problem}
        onCancel={onClose}
        onSubmit={({ key, ...body }: any) =>
          known.some((flag) => flag.key === key) ? open(key) : create.run({ params: { id, key }, body })
        }
      >
        <Field name="key" isExtra isRequired autoFocus label={text.key} hint={text.keyHint} />
        <Field name="enabled" label={text.enabled} />
        <Field name="rolloutPercent" label={text.rolloutPercent} hint={text.rolloutHint} />
        <Field name="bucketKey" label={text.bucketKey} hint={text.bucketKeyHint} />
      </Form>
    </Panel>
  )
}
