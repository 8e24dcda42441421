/** Migrations: tenants by version, runs with their progress, start and cancellation. */
import { useState } from 'react'
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty, PageHeader, Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { Time } from '../../../console/components/base/time.tsx'
import { SimpleTable } from '../../../console/components/lists/simple-table.tsx'
import { type Column, Skeleton, Table } from '../../../console/components/lists/table.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { href } from '../../../console/routing/links.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { finishedOf, isBehind, isRunning, PROGRESS_MS, type Run, type Version } from './run.ts'
import { RunPanel } from './run-panel.tsx'
import { StartRun } from './start.tsx'
import { text } from './text.ts'

const IDLE_MS = 15_000

export default function Migrations() {
  const panel = useOpen()
  const [isStarting, setStarting] = useState(false)
  const { data, error, refetch } = useOperation(
    'migrations.status',
    {},
    { refetchInterval: ({ state }) => (state.data?.lastRun && isRunning(state.data.lastRun) ? PROGRESS_MS : IDLE_MS) },
  )
  const versions = data?.versions ?? []
  return (
    <div className="with-panel">
      <div>
        <PageHeader title={text.migrations}>
          {isPermitted('migrationRuns.start') && versions.some(isBehind) && (
            <Button variant="primary" onClick={() => setStarting(true)}>
              {text.start}…
            </Button>
          )}
        </PageHeader>
        <Section title={text.versions}>
          {error && !data && <ProblemView error={error} onRetry={refetch} />}
          {!data && !error && <Skeleton rows={3} />}
          {data && versions.length === 0 && <p className="faint">{text.noVersions}</p>}
          {versions.length > 0 && <Versions versions={versions} />}
          {versions.length > 0 && !versions.some(isBehind) && <p className="faint after">{text.nothing}</p>}
        </Section>
        {isPermitted('migrationRuns.list') && <Runs />}
      </div>
      {isStarting && <StartRun versions={versions} onClose={() => setStarting(false)} />}
      {panel.id && <RunPanel runId={panel.id} onClose={panel.close} />}
    </div>
  )
}

const Versions = ({ versions }: { versions: readonly Version[] }) => (
  <SimpleTable
    label={text.versions}
    columns={[text.last, text.tenants, text.pending, text.failed, text.notes]}
    rows={versions.map(({ last, isKnown, tenants, pending, failed, unknown, edited }) => ({
      key: `${last} ${pending} ${unknown} ${edited}`,
      cells: [
        isKnown ? (last ?? text.none) : text.unknownVersion,
        formatNumber(tenants),
        pending.length > 0 ? (
          <Status key="pending" state="warn">
            {text.names(pending)}
          </Status>
        ) : (
          '–'
        ),
        failed > 0 ? (
          <Status key="failed" state="failed">
            {formatNumber(failed)}
          </Status>
        ) : (
          '–'
        ),
        [unknown.length > 0 ? text.unknown(unknown) : undefined, edited.length > 0 ? text.edited(edited) : undefined]
          .filter(Boolean)
          .join('; ') || '–',
      ],
    }))}
  />
)

const COLUMNS: readonly Column<Run>[] = [
  { key: 'run', title: text.run, width: '22%', cell: (run) => text.runOf(run) },
  {
    key: 'state',
    title: text.state,
    cell: (run) => (
      <>
        <Status state={run.state} />
        {isRunning(run) && run.isCancelled && <span className="faint"> {text.cancelling}</span>}
      </>
    ),
  },
  { key: 'progress', title: text.progress, cell: (run) => text.progressOf(finishedOf(run), run.total) },
  {
    key: 'failed',
    title: text.failed,
    isMinor: true,
    cell: ({ failed }) => (failed > 0 ? formatNumber(failed) : <span className="faint">–</span>),
  },
  {
    key: 'startedBy',
    title: text.startedBy,
    isMinor: true,
    cell: ({ startedBy }) => startedBy ?? <span className="faint">–</span>,
  },
  { key: 'created', title: text.started, align: 'end', cell: ({ createdAt }) => <Time at={createdAt} /> },
]

interface Pages {
  readonly pages: readonly { readonly data: readonly Run[] }[]
}

function Runs() {
  const list = useList(
    'migrationRuns.list',
    {},
    {
      refetchInterval: ({ state }) =>
        (state.data as Pages | undefined)?.pages.some(({ data }) => data.some(isRunning)) ? PROGRESS_MS : IDLE_MS,
    },
  )
  return (
    <Section title={text.runs}>
      <Table
        label={text.runs}
        kind="migrationRun"
        columns={COLUMNS}
        list={list}
        idOf={({ id }) => id}
        nameOf={text.runOf}
        hrefOf={({ id }) => href('/migrations', { open: id })}
        menuOf={(run) => menuEntriesOf('migrationRun', run)}
        empty={<Empty title={text.noRuns}>{text.noRunsText}</Empty>}
      />
    </Section>
  )
}
