/** A console module of a host: it compiles against `tenantry/console`, as the documentation shows it. */
import { useState } from 'react'
import {
  type ActionProps,
  Button,
  Chart,
  type ChartSeries,
  type Column,
  Confirm,
  defineConsoleModule,
  Empty,
  Field,
  Form,
  formatNumber,
  type HostOperation,
  isPermitted,
  PageHeader,
  Panel,
  type Result,
  Section,
  Sparkline,
  Table,
  Time,
  tenantHref,
  useAction,
  useList,
  useOpen,
  useOperation,
  useParams,
  useSearch,
  useSetSearch,
} from 'tenantry/console'

interface Note {
  readonly id: string
  readonly text: string
  readonly createdAt: string
}

interface Page {
  readonly limit?: number
  readonly cursor?: string
}

declare module 'tenantry/console' {
  interface HostOperations {
    'notes.list': HostOperation<{
      params: { id: string }
      query: Page & { status?: 'open' | 'done' }
      result: { data: Note[]; nextCursor: string | null }
    }>
    'notes.create': HostOperation<{ params: { id: string }; body: { text: string; isPinned?: boolean }; result: Note }>
    'notes.delete': HostOperation<{ params: { id: string; noteId: string } }>
    'notes.count': HostOperation<{ result: { notes: number } }>
  }
}

const columns: readonly Column<Note>[] = [
  { key: 'text', title: 'Note', cell: ({ text }) => text, isLong: true },
  { key: 'created', title: 'Created', align: 'end', cell: ({ createdAt }) => <Time at={createdAt} /> },
]

function Notes() {
  const { id = '' } = useParams()
  const { status } = useSearch('notes.list')
  const panel = useOpen()
  const list = useList('notes.list', { params: { id }, query: { status } })
  const create = useAction('notes.create', { done: ({ text }) => `Created: ${text}`, onDone: panel.close })
  return (
    <Section
      title="Notes"
      actions={isPermitted('notes.create') && <Button onClick={() => panel.open('new')}>New</Button>}
    >
      <Table
        label="Notes"
        columns={columns}
        list={list}
        idOf={(note) => note.id}
        hrefOf={(note) => tenantHref(id, `notes/${note.id}`)}
        empty={<Empty title="No notes" />}
      />
      {panel.id === 'new' && (
        <Panel title="New note" onClose={panel.close}>
          <Form operation="notes.create" submit="Create" onSubmit={(body) => create.run({ params: { id }, body })}>
            <Field name="text" label="Text" />
          </Form>
        </Panel>
      )}
    </Section>
  )
}

function Count() {
  const { data, error } = useOperation('notes.count', {})
  const { data: tenants } = useOperation('tenants.list', { query: { status: 'active', limit: 1 } })
  const [isShown, setShown] = useState(true)
  const notes: number | undefined = data?.notes
  const setSearch = useSetSearch()
  const series: ChartSeries[] = [{ label: 'Written', values: [notes ?? null, 2], color: 'good', total: '2' }]
  return (
    <>
      <PageHeader title="Notes" lead={error?.message}>
        <Button onClick={() => setShown(!isShown)}>{isShown ? 'Hide' : 'Show'}</Button>
      </PageHeader>
      {isShown && notes} {tenants?.data[0]?.name}
      <Chart
        caption="Notes by day (UTC)"
        summary="Two notes in two days."
        starts={['2026-11-26', '2026-11-27']}
        step="day"
        series={series}
        format={formatNumber}
        onSelect={setSearch}
      />
      <Sparkline values={[0, 2]} />
    </>
  )
}

function DeleteNote({ target, onClose }: ActionProps<Note & { readonly tenantId: string }>) {
  const input = { params: { id: target.tenantId, noteId: target.id } }
  const remove = useAction('notes.delete', { onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title="Delete the note?"
      confirm="Delete"
      word={target.id}
      problem={remove.problem}
      call={{ name: 'notes.delete', input }}
      onConfirm={() => remove.run(input)}
      onClose={onClose}
    >
      It cannot be restored.
    </Confirm>
  )
}

export default defineConsoleModule({
  name: 'notes',
  screens: [
    {
      path: '/notes',
      title: 'Notes',
      needs: ['notes.count', 'tenants.list'],
      navigation: { icon: 'module', order: 65 },
      view: async () => ({ default: Count }),
    },
  ],
  tabs: [
    {
      path: 'notes',
      title: 'Notes',
      needs: ['notes.list'],
      search: 'notes.list',
      view: async () => ({ default: Notes }),
    },
  ],
  actions: [
    {
      name: 'notes.delete',
      title: 'Delete…',
      target: 'note',
      needs: ['notes.delete'],
      isDestructive: true,
      view: async () => ({ default: DeleteNote }),
    },
  ],
  notShown: { 'notes.create': 'a form of the tab' },
})

/** Wrong names, inputs and results are errors of the compiler. */
export function Rejected() {
  // @ts-expect-error no operation has this name
  useOperation('notes.unknown', {})
  // @ts-expect-error the parameter `id` is absent
  useList('notes.list', {})
  // @ts-expect-error the operation has no such status
  useList('notes.list', { params: { id: 'acme' }, query: { status: 'late' } })
  // @ts-expect-error the operation is no list
  useList('notes.count', {})
  const create = useAction('notes.create')
  // @ts-expect-error the member `text` is absent
  void create.run({ params: { id: 'acme' }, body: { isPinned: true } })
  const view = async () => ({ default: Count })
  // @ts-expect-error no operation has this name
  defineConsoleModule({ name: 'notes', tabs: [{ path: 'notes', title: 'Notes', needs: ['notes.unknown'], view }] })
  const wrong: Result<'notes.count'> = {
    // @ts-expect-error the number is a text
    notes: '1',
  }
  return wrong
}
