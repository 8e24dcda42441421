/** Commands of tenants' migrations and seeds. */

import { callerIn } from '../../kernel/api/caller.ts'
import type { CommandInput, Option, Terminal } from '../../kernel/api/commands.ts'
import { itemFailure } from '../../kernel/api/item-failure.ts'
import { count, countOrNone } from '../../kernel/api/option-values.ts'
import { commandsOf, type ProjectedCommand } from '../../kernel/api/projection.ts'
import { forEachConcurrent } from '../../kernel/base/concurrency.ts'
import { invalid, TenancyError } from '../../kernel/base/errors.ts'
import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { MigrationsIncomplete } from '../migrations/errors.ts'
import { finishedOf, type MigrationItem, type Progress } from '../migrations/model/run.ts'
import type { MigrateOptions, MigrationReport } from '../migrations/options.ts'
import { nameOf } from '../migrations/plan.ts'
import { migrationRunOperations } from '../operations/migration-runs.ts'
import {
  getMigrationStatus,
  listMigrations,
  type MigrationStatus,
  type MigrationsOfTenant,
} from '../operations/migrations.ts'
import { command } from '../part.ts'
import { readSeed } from '../sql-import/seed.ts'
import type { Tenants } from '../tenants.ts'

/** Number of storages above which the table has counts only. */
const SHOWN_WHOLE = 20

const ids = { name: 'ids', summary: 'only these tenants', isRepeatable: true }
const concurrency: Option = {
  flags: '--concurrency <count>',
  summary: 'number of concurrent tenants',
  parse: count,
  default: 4,
}
const all: Option = { flags: '--all', summary: 'all tenants' }

const stopAfter = (suffix: string): Option => ({
  flags: '--stop-after <count>',
  summary: `stop after this number of failures${suffix}`,
  parse: count,
})

const runOptions: readonly Option[] = [
  concurrency,
  {
    flags: '--retries <count>',
    summary: 'attempts for a locked table or an unavailable server',
    parse: countOrNone,
    default: 3,
  },
  { flags: '--lock-timeout <ms>', summary: 'time limit of a lock', parse: count, default: 10_000 },
]

/** Of one tenant it calls another operation. */
const migrationStatus: ProjectedCommand<Tenants> = {
  name: 'tenant:migrate:status',
  summary: 'Show the migrations of one tenant, or the number of tenants by migration, and the last run',
  arguments: [{ name: 'id', summary: 'only this tenant' }],
  options: [{ flags: '--verify', summary: "query the tenant's storage" }],
  operation: getMigrationStatus,
  run: (tenants, input) => migrationStatus.runWith(callerIn(tenants, input.signal), input),
  runWith: async ({ call }, { args, options, terminal }) => {
    if (args.id) {
      const query = { verify: String(options.verify === true) }
      const { body } = await call(listMigrations, { params: { id: args.id }, query })
      return terminal.table((body as MigrationsOfTenant).data)
    }
    const status = (await call(getMigrationStatus, {})).body as MigrationStatus
    const { versions, lastRun } = status
    terminal.table(
      versions.map(({ last, isKnown, tenants, ...rest }) => ({
        tenants,
        last: isKnown ? (last ?? 'none') : 'unknown',
        ...rest,
      })),
      status,
    )
    if (!lastRun) return terminal.say('no run yet')
    const { direction, state, done, failed, skipped, pending, running, createdAt } = lastRun
    const left = pending + running > 0 ? `, ${pending + running} left` : ''
    terminal.say(
      `last ${direction === 'up' ? 'run' : 'rollback'} of ${createdAt}: ` +
        `${state}, ${done} done, ${failed} failed, ${skipped} skipped${left}`,
    )
  },
}

export const migrationCommands = [
  command({
    name: 'tenant:migrate',
    changesStorage: 'but new migrations',
    summary: "Run the host's pending migrations for some tenants or all; continues an interrupted run",
    arguments: [ids],
    options: [
      ...runOptions,
      stopAfter('; default: 1 % of the storages, at least 10'),
      { flags: '--dry-run', summary: 'only show the plan' },
      { flags: '--verify', summary: 'query every storage, including those recorded as up to date' },
      { flags: '--cancel', summary: 'end the unfinished run in any process' },
    ],
    run: async ({ migrations }, input) => {
      const { options, terminal } = input
      const chosen = chosenIds(input)
      const { verify = false } = options
      if (options.cancel) {
        const report = await migrations.cancel()
        if (report) return shown(report, terminal)
        return terminal.table([], null, 'no unfinished run')
      }
      if (options.dryRun) {
        const planned = await migrations.status.plan({ ids: chosen, verify })
        return terminal.table(
          planned.map(({ tenantId, ...plan }) => ({ id: tenantId, ...plan, error: plan.error?.message })),
          planned,
        )
      }
      await carriedOut(input, 'tenant:migrate', (common) => migrations.run({ ids: chosen, verify, ...common }))
    },
  }),
  command({
    name: 'tenant:migrate:rollback',
    changesStorage: true,
    summary: "Roll back tenants' last migrations",
    arguments: [ids],
    options: [
      ...runOptions,
      stopAfter(''),
      all,
      { flags: '--steps <count>', summary: 'number of migrations', parse: count, default: 1 },
      { flags: '--dry-run', summary: 'only show the plan' },
    ],
    run: async ({ migrations }, input) => {
      const { options, terminal } = input
      const chosen = someOrAll(input)
      const { steps } = options
      const planned = await migrations.status.plan({ ids: chosen, steps })
      if (options.dryRun) {
        return terminal.table(
          planned.map(({ tenantId, ...plan }) => ({ id: tenantId, ...plan, error: plan.error?.message })),
          planned,
        )
      }
      const whose = chosen?.length === 1 ? chosen[0] : `${planned.length} tenant(s)`
      if (!(await terminal.confirm(`Roll back the last ${steps} migration(s) of ${whose}?`))) return
      await carriedOut(input, 'tenant:migrate:rollback', (common) =>
        migrations.rollback({ ids: chosen, steps, ...common }),
      )
    },
  }),
  migrationStatus,
  ...commandsOf(migrationRunOperations),
  command({
    name: 'tenant:seed',
    changesStorage: false,
    summary: "Run the host's seed in tenants' storage, in one transaction each",
    arguments: [ids],
    options: [
      all,
      {
        flags: '--file <path>',
        summary: 'a .sql file, or a .ts or .js file that exports seed(db, tenant)',
        required: true,
      },
      concurrency,
    ],
    run: async (tenants, input) => {
      const chosen = someOrAll(input) ?? (await activeIds(tenants))
      await seeded(tenants, chosen, input)
    },
  }),
]

type Common = Pick<
  MigrateOptions,
  'concurrency' | 'retries' | 'lockTimeoutMs' | 'stopAfterFailures' | 'signal' | 'onProgress'
>

async function carriedOut(
  { options, terminal, signal }: CommandInput,
  name: string,
  run: (common: Common) => Promise<MigrationReport>,
): Promise<void> {
  const interrupted = () => terminal.say(`migrations in progress will end; run ${name} again to continue`)
  signal.addEventListener('abort', interrupted, { once: true })
  try {
    const report = await run({
      concurrency: options.concurrency,
      retries: options.retries,
      lockTimeoutMs: options.lockTimeout,
      stopAfterFailures: options.stopAfter,
      signal,
      onProgress: (progress) => terminal.progress(words(progress)),
    })
    shown(report, terminal)
  } finally {
    signal.removeEventListener('abort', interrupted)
  }
}

/** Fails the command unless everything was migrated. */
function shown(report: MigrationReport, terminal: Terminal): void {
  const { items, total, done, failed, skipped, pending, running, isStopped } = report
  const failures = items.filter(({ state }) => state === 'failed')
  if (items.length <= SHOWN_WHOLE) {
    terminal.table(items.map(rowOf), report)
  } else {
    terminal.table([{ total, done, failed, skipped, left: pending + running }], report)
    for (const item of failures) terminal.say(`${nameOf(item)}  ${rowOf(item).error}`)
  }
  const [first] = failures
  if (!first) return
  const stop = isStopped ? `; the run stopped at this number and skipped ${skipped}` : ''
  const next = `Fix the cause and run it again${isStopped ? ', or give --stop-after' : ''}.`
  throw MigrationsIncomplete(
    `${failed} of ${total} failed${stop}; the first is ${nameOf(first)}: ${first.error?.message.replace(/\.$/, '')}. ${next}`,
  )
}

const rowOf = (item: MigrationItem) => ({
  id: nameOf(item),
  state: item.state,
  migrations: item.migrations,
  attempts: item.attempts,
  error: item.error && item.state !== 'done' ? `${item.error.code}: ${item.error.message}` : null,
})

function words(progress: Progress): string {
  const { total, failed } = progress
  const failures = failed > 0 ? `, ${failed} failed` : ''
  return `${number(finishedOf(progress))} of ${number(total)}${failures}${paceText(progress)}`
}

async function seeded(tenants: Tenants, chosen: readonly string[], input: CommandInput): Promise<void> {
  const { options, terminal, signal } = input
  const seed = await readSeed(options.file)
  const results: { id: string; isSeeded: boolean; error?: string }[] = []
  const failures: unknown[] = []
  const look = meter()
  let finished = 0
  await forEachConcurrent(
    chosen,
    options.concurrency,
    async (id, index) => {
      terminal.progress(`${finished} of ${chosen.length}${paceText(look(finished, chosen.length))}: ${id}`)
      try {
        const [tenant, { transaction }] = [await tenants.get(id), await tenants.handle(id)]
        await transaction(async (db) => void (await seed(db, tenant)))
        results[index] = { id, isSeeded: true }
      } catch (error) {
        failures.push(error)
        results[index] = { id, isSeeded: false, ...itemFailure(error) }
      }
      finished++
    },
    signal,
  )
  if (chosen.length === 1 && failures.length > 0) throw failures[0]
  terminal.table(results.filter(Boolean))
  signal.throwIfAborted()
  if (failures.length > 0) throw failures.find((error) => error instanceof TenancyError) ?? failures[0]
}

async function activeIds(tenants: Tenants): Promise<string[]> {
  const ids: string[] = []
  let cursor: string | undefined
  do {
    const page = await tenants.list({ status: 'active', limit: 200, cursor })
    ids.push(...page.data.map(({ id }) => id))
    cursor = page.nextCursor ?? undefined
  } while (cursor)
  return ids
}

function chosenIds({ args }: CommandInput): string[] | undefined {
  return args.ids ? [...new Set(args.ids.split(/[\s,]+/).filter(Boolean))] : undefined
}

/** Undefined for all, which must be explicit. */
function someOrAll(input: CommandInput): string[] | undefined {
  const ids = chosenIds(input)
  if (Boolean(ids) === Boolean(input.options.all)) {
    throw invalid([{ path: 'ids', message: 'Name the tenants, or give --all.' }])
  }
  return ids
}
