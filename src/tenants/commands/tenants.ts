import { CompiledQuery } from 'kysely'
import type { CommandInput } from '../../kernel/api/commands.ts'
import { type ItemFailure, itemFailure } from '../../kernel/api/item-failure.ts'
import { commandsOf } from '../../kernel/api/projection.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import type { Erasures } from '../erasure/erasures.ts'
import { eraseTenant } from '../erasure/operations.ts'
import type { Tenant } from '../handles/handle.ts'
import { asRejected } from '../isolation/rejected-sql.ts'
import { deadLetterOperations } from '../operations/dead-letters.ts'
import { operations } from '../operations/tenants.ts'
import { command } from '../part.ts'
import { sqlStatements } from '../sql-import/splitter.ts'
import { textOfFile } from '../tenant/text-file.ts'
import { importCommand } from './import.ts'
import { migrationCommands } from './migration.ts'
import { promptCommand } from './repl.ts'
import { transferCommands } from './transfers.ts'

const [erase] = commandsOf([eraseTenant])
const id = { name: 'id', summary: 'id of the tenant', required: true }

export const commands = [
  ...commandsOf(
    operations,
    'tenant:list',
    'tenant:show',
    'tenant:create',
    'tenant:update',
    'tenant:activate',
    'tenant:suspend',
    'tenant:delete',
    'tenant:restore',
    'tenant:plan:set',
    'plan:list',
    'tenant:queue:stats',
    'tenant:maintenance',
    'tenant:adopt',
    'tenant:release',
    'tenant:adopt:tables',
    'tenant:release:tables',
  ),
  command({
    name: 'tenant:purge',
    changesStorage: true,
    summary:
      'Remove deleted tenants past their purgeAt permanently, or one of them; with --now erase a tenant immediately',
    arguments: [{ name: 'id', summary: 'only this tenant' }],
    options: [
      { flags: '--dry-run', summary: 'only list them; with --now only search for data' },
      { flags: '--now', summary: 'erase the tenant in any state, and print the report' },
      ...(erase?.options ?? []).map(({ required: _, ...option }) => option),
    ],
    run: async ({ installation, erasures }, input) => {
      const { args, options, terminal, signal } = input
      assertOptionsOfPurge(input)
      if (options.now && options.dryRun) return terminal.table(planned(await erasures.plan(args.id ?? '')))
      if (options.now) return erase?.run(erasures, input)
      const chosen = args.id ? [args.id] : await Array.fromAsync(installation.expired())
      if (options.dryRun || chosen.length === 0) return terminal.table(chosen.map((id) => ({ id, purged: false })))
      if (!(await terminal.confirm(`Remove ${chosen.length} tenant(s) and all their data permanently?`))) return
      await each(chosen, { terminal, signal }, async (id) => {
        if (await installation.purge(id)) return { purged: true }
        throw invalid([{ path: 'id', message: `"${id}" is not a deleted tenant past its purgeAt` }])
      })
    },
  }),
  ...migrationCommands,
  ...transferCommands,
  command({
    name: 'tenant:exec',
    changesStorage: false,
    summary: "Run SQL in a tenant's scope in one transaction, and print the rows of the last statement",
    arguments: [id],
    options: [
      { flags: '--sql <sql>', summary: 'statements' },
      { flags: '--file <path>', summary: 'a file with statements' },
    ],
    run: async (tenants, { args, options, terminal }) => {
      const text: string = options.sql ?? (options.file ? await textOfFile(options.file) : '')
      if (!text.trim()) throw invalid([{ path: 'sql', message: 'Give a statement with --sql or --file.' }])
      const handle = await tenants.handle(args.id ?? '')
      const rows = await rowsOf(handle, sqlStatements(text)).catch((error: unknown) => {
        throw asRejected(error)
      })
      terminal.table(rows)
    },
  }),
  importCommand,
  promptCommand,
  ...commandsOf(deadLetterOperations),
  command({
    name: 'backoffice:restored',
    changesStorage: false,
    summary:
      'Record that the backoffice was restored from a dump, before a service starts on it: nothing is dropped by its old state',
    run: async (tenants, { terminal }) => {
      if (!(await terminal.confirm('Was this database restored from a dump, and does no service run on it?'))) return
      terminal.record({ ...(await tenants.reconcileAfterRestore()) })
    },
  }),
  command({
    name: 'placement:forget',
    changesStorage: false,
    summary:
      'Forget a PostgreSQL server that is permanently lost: nothing is dropped there, and its tenants can be purged',
    arguments: [
      { name: 'placement', summary: 'name of the server, which the configuration no longer has', required: true },
    ],
    run: async ({ lostPlacements }, { args, terminal }) => {
      const { placement = '' } = args
      if (!(await terminal.confirm(`Is "${placement}" permanently lost, with all data of tenants on it?`))) return
      terminal.record({ ...(await lostPlacements.forget(placement)) })
    },
  }),
]

const REQUIRED_TO_ERASE = ['confirm', 'reason'] as const
const ONLY_TO_ERASE = [...REQUIRED_TO_ERASE, 'billing', 'detach'] as const

function assertOptionsOfPurge({ args, options }: Pick<CommandInput, 'args' | 'options'>): void {
  const given = (name: string) => options[name] !== undefined
  if (!options.now) {
    const ignored = ONLY_TO_ERASE.find(given)
    if (ignored) throw invalid([{ path: ignored, message: 'requires --now' }])
    return
  }
  if (args.id === undefined) throw invalid([{ path: 'id', message: 'is required with --now' }])
  const missing = options.dryRun ? undefined : REQUIRED_TO_ERASE.find((name) => !given(name))
  if (missing) throw invalid([{ path: missing, message: 'is required with --now' }])
}

const planned = (plan: Awaited<ReturnType<Erasures['plan']>>) =>
  plan.flatMap(({ system, found }) =>
    found.filter(({ count }) => count > 0).map(({ kind, count, kept = '' }) => ({ system, kind, found: count, kept })),
  )

/** A single statement runs outside of a transaction, because some statements require it. Several run in one. */
async function rowsOf(
  { db, transaction }: Tenant,
  [first = '', ...others]: readonly string[],
): Promise<Record<string, unknown>[]> {
  const run = async (on: Tenant['db'], text: string) =>
    (await on.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text))).rows
  if (others.length === 0) return run(db, first)
  return transaction(async (inside) => {
    let rows = await run(inside, first)
    for (const text of others) rows = await run(inside, text)
    return rows
  })
}

/** One after the other. A failure does not stop the others; it is reported with them, and fails the command. */
async function each<Result extends object>(
  ids: readonly string[],
  { terminal, signal }: Pick<CommandInput, 'terminal' | 'signal'>,
  work: (id: string) => Promise<Result>,
): Promise<void> {
  const look = meter()
  const results: ({ id: string } & Partial<ItemFailure & Result>)[] = []
  const failures: unknown[] = []
  for (const [index, id] of ids.entries()) {
    if (signal.aborted) break
    terminal.progress(`${index} of ${ids.length}${paceText(look(index, ids.length))}: ${id}`)
    try {
      results.push({ id, ...(await work(id)) })
    } catch (error) {
      failures.push(error)
      results.push({ id, ...itemFailure(error) } as (typeof results)[number])
    }
  }
  if (ids.length === 1 && failures.length > 0) throw failures[0]
  terminal.table(results)
  signal.throwIfAborted()
  if (failures.length > 0) throw failures[0]
}
