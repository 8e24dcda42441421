import { CompiledQuery } from 'kysely'
import { z } from 'zod'
import { type CommandInput, command, type Option } from '../../kernel/api/commands.ts'
import { count, json } from '../../kernel/api/option-values.ts'
import { Page } from '../../kernel/api/page.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { parsed } from '../../kernel/base/validate.ts'
import type { TenantHandle } from '../handles/handle.ts'
import { asRejected } from '../isolation/rejected-sql.ts'
import { sqlStatements } from '../sql-import/splitter.ts'
import { InstallationFailed, TenantNotReady } from '../tenant/errors.ts'
import { STATUSES } from '../tenant/lifecycle.ts'
import type { Tenant } from '../tenant/tenant.ts'
import { textOfFile } from '../tenant/text-file.ts'
import type { Tenants } from '../tenants.ts'
import { importCommand } from './import.ts'
import { migrationCommands } from './migration.ts'
import { promptCommand } from './repl.ts'
import { transferCommands } from './transfers.ts'

const id = { name: 'id', summary: 'id of the tenant', required: true }

/** What `tenant:list` takes, as strictly as `GET /tenants`. */
const Listing = z.object({
  status: z.enum(STATUSES).optional(),
  q: z.string().min(1).max(200).optional(),
  includeDeleted: z.boolean().optional(),
  ...Page.shape,
})

const wait: Option = { flags: '--wait <seconds>', summary: 'wait for the installation', parse: seconds, default: 30 }

const run =
  (change: (tenants: Tenants, id: string, input: CommandInput) => Promise<Tenant>) =>
  async (tenants: Tenants, input: CommandInput): Promise<void> => {
    input.terminal.record(await change(tenants, input.args.id ?? '', input))
  }

export const commands = [
  command<Tenants>({
    name: 'tenant:list',
    summary: 'List tenants, the newest first',
    options: [
      { flags: '--status <status>', summary: 'only those in this status' },
      { flags: '--q <text>', summary: 'part of an id, name or domain' },
      { flags: '--include-deleted', summary: 'deleted ones too' },
      { flags: '--limit <count>', summary: 'how many at most (1 to 200)', parse: count, default: 50 },
      { flags: '--cursor <cursor>', summary: 'nextCursor of the page before' },
    ],
    run: async (tenants, { options, terminal }) => {
      const page = await tenants.list(parsed(Listing, options))
      terminal.table(page.data.map(row), page)
      if (page.nextCursor) terminal.say(`more: --cursor ${page.nextCursor}`)
    },
  }),
  command<Tenants>({
    name: 'tenant:show',
    summary: 'Show one tenant',
    arguments: [id],
    run: run((tenants, id) => tenants.get(id)),
  }),
  command<Tenants>({
    name: 'tenant:create',
    summary: 'Create a tenant and wait until it is active',
    arguments: [{ name: 'name', summary: 'name of the customer', required: true }],
    options: [
      { flags: '--id <id>', summary: 'an id of your own; a UUIDv7 if absent' },
      { flags: '--plan <plan>', summary: 'written to metadata.plan' },
      { flags: '--metadata <json>', summary: 'a JSON object', parse: json },
      { flags: '--domain <domain...>', summary: 'host names of the tenant' },
      { flags: '--isolation <driver>', summary: 'how its rows are kept apart' },
      { flags: '--placement <name>', summary: 'the PostgreSQL server it is put on' },
      wait,
    ],
    needsWorker: true,
    run: async (tenants, input) => {
      const { id, plan, metadata = {}, domain: domains, isolation, placement } = input.options
      const tenant = await tenants.create({
        id,
        name: input.args.name ?? '',
        metadata: plan === undefined ? metadata : { ...metadata, plan },
        domains,
        isolation,
        placement,
      })
      await shown(tenants, tenant, input)
    },
  }),
  command<Tenants>({
    name: 'tenant:activate',
    summary: 'Activate a suspended tenant, or install a failed one again',
    arguments: [id],
    options: [wait],
    needsWorker: true,
    run: async (tenants, input) => shown(tenants, (await tenants.activate(input.args.id ?? '')).tenant, input),
  }),
  command<Tenants>({
    name: 'tenant:suspend',
    summary: 'Suspend an active tenant',
    arguments: [id],
    run: run(async (tenants, id) => (await tenants.suspend(id)).tenant),
  }),
  command<Tenants>({
    name: 'tenant:delete',
    summary: 'Delete a tenant; it can be restored until it is purged',
    arguments: [id],
    run: async (tenants, { args, terminal }) => {
      const tenant = await tenants.get(args.id ?? '')
      if (!(await terminal.confirm(`Delete ${tenant.name} (${tenant.id})?`))) return
      terminal.record((await tenants.delete(tenant.id)).tenant)
    },
  }),
  command<Tenants>({
    name: 'tenant:restore',
    summary: 'Bring a deleted tenant back',
    arguments: [id],
    run: run(async (tenants, id) => (await tenants.restore(id)).tenant),
  }),
  command<Tenants>({
    name: 'tenant:maintenance',
    summary: 'Put a tenant into maintenance, or take it out with --off',
    arguments: [id],
    options: [
      { flags: '--off', summary: 'leave maintenance' },
      { flags: '--message <text>', summary: 'what its users are told' },
      { flags: '--retry-after <seconds>', summary: 'when to try again', parse: seconds },
    ],
    run: run((tenants, id, { options }) =>
      options.off
        ? tenants.exitMaintenance(id)
        : tenants.enterMaintenance(id, { message: options.message, retryAfterSeconds: options.retryAfter }),
    ),
  }),
  command<Tenants>({
    name: 'tenant:purge',
    summary: 'Remove deleted tenants past their purgeAt for good, or one of them',
    arguments: [{ name: 'id', summary: 'only this tenant' }],
    options: [{ flags: '--dry-run', summary: 'only say which' }],
    run: async ({ installation }, { args, options, terminal, signal }) => {
      const chosen = args.id ? [args.id] : await Array.fromAsync(installation.expired())
      if (options.dryRun || chosen.length === 0) return terminal.table(chosen.map((id) => ({ id, purged: false })))
      if (!(await terminal.confirm(`Remove ${chosen.length} tenant(s) and everything they have, for good?`))) return
      await each(chosen, { terminal, signal }, async (id) => {
        if (await installation.purge(id)) return { purged: true }
        throw invalid([{ path: 'id', message: `"${id}" is not a deleted tenant past its purgeAt` }])
      })
    },
  }),
  ...migrationCommands,
  ...transferCommands,
  command<Tenants>({
    name: 'tenant:exec',
    summary: "Run SQL in a tenant's scope, all or nothing, and print the rows of the last statement",
    arguments: [id],
    options: [
      { flags: '--sql <sql>', summary: 'statements' },
      { flags: '--file <path>', summary: 'a file with statements' },
    ],
    run: async (tenants, { args, options, terminal }) => {
      const text: string = options.sql ?? (options.file ? await textOfFile(options.file) : '')
      if (!text.trim()) throw invalid([{ path: 'sql', message: 'give a statement with --sql or --file' }])
      const handle = await tenants.handle(args.id ?? '')
      const rows = await rowsOf(handle, sqlStatements(text)).catch((error: unknown) => {
        throw asRejected(error)
      })
      terminal.table(rows)
    },
  }),
  importCommand,
  promptCommand,
  command<Tenants>({
    name: 'tenant:queue:stats',
    summary: 'Count jobs by queue and state, of one tenant or all',
    arguments: [{ name: 'id', summary: 'only this tenant' }],
    run: async (tenants, { args, terminal }) => {
      terminal.table((await tenants.queues(args.id)).map((counts) => ({ ...counts })))
    },
  }),
  command<Tenants>({
    name: 'backoffice:restored',
    summary:
      'Say that the backoffice was brought back from a dump, before a service is started on it: nothing is dropped by what it knew then',
    run: async (tenants, { terminal }) => {
      if (!(await terminal.confirm('Was this database brought back from a dump, and does no service run on it?')))
        return
      terminal.record({ ...(await tenants.reconcileAfterRestore()) })
    },
  }),
  command<Tenants>({
    name: 'placement:forget',
    summary:
      'Forget a PostgreSQL server that is gone for good: nothing is dropped there any more, and its tenants can be purged',
    arguments: [{ name: 'placement', summary: 'its name; no longer in the configuration', required: true }],
    run: async ({ lostPlacements }, { args, terminal }) => {
      const { placement = '' } = args
      if (!(await terminal.confirm(`Is "${placement}" gone for good, with everything that tenants had there?`))) return
      terminal.record({ ...(await lostPlacements.forget(placement)) })
    },
  }),
]

/** One statement is by itself, as some refuse to run in a transaction; several are one. */
async function rowsOf(
  { db, transaction }: TenantHandle,
  [first = '', ...others]: readonly string[],
): Promise<Record<string, unknown>[]> {
  const run = async (on: TenantHandle['db'], text: string) =>
    (await on.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text))).rows
  if (others.length === 0) return run(db, first)
  return transaction(async (inside) => {
    let rows = await run(inside, first)
    for (const text of others) rows = await run(inside, text)
    return rows
  })
}

/** Waits for the installation, shows the tenant as it then is, and fails the command when it is not active. */
async function shown(
  tenants: Tenants,
  tenant: Tenant,
  { options, terminal, signal }: Pick<CommandInput, 'options' | 'terminal' | 'signal'>,
): Promise<void> {
  if (tenant.status !== 'provisioning') return terminal.record(tenant)
  terminal.progress(`installing ${tenant.id}`)
  const deadline = AbortSignal.timeout(options.wait * 1_000)
  const { failure, ...settled } = await tenants.waitUntilInstalled(tenant.id, AbortSignal.any([signal, deadline]))
  terminal.record({ ...settled, failure })
  if (failure) throw InstallationFailed(`The installation was given up: ${failure.message}`)
  if (settled.status === 'provisioning')
    throw TenantNotReady('The installation goes on; tenant:show says when it is done.')
}

/** One after the other. One that fails does not keep the others from their turn; it is told with them, and fails the command. */
async function each<Result extends object>(
  ids: readonly string[],
  { terminal, signal }: Pick<CommandInput, 'terminal' | 'signal'>,
  work: (id: string) => Promise<Result>,
): Promise<void> {
  const look = meter()
  const results: ({ id: string; error?: string } & Partial<Result>)[] = []
  const failures: unknown[] = []
  for (const [index, id] of ids.entries()) {
    if (signal.aborted) break
    terminal.progress(`${index} of ${ids.length}${paceText(look(index, ids.length))}: ${id}`)
    try {
      results.push({ id, ...(await work(id)) })
    } catch (error) {
      failures.push(error)
      results.push({ id, error: error instanceof Error ? error.message : String(error) } as (typeof results)[number])
    }
  }
  if (ids.length === 1 && failures.length > 0) throw failures[0]
  terminal.table(results)
  signal.throwIfAborted()
  if (failures.length > 0) throw failures[0]
}

const row = ({ id, name, status, isolation, placement, createdAt }: Tenant) => ({
  id,
  name,
  status,
  isolation,
  placement,
  createdAt,
})

function seconds(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value < 0)
    throw invalid([{ path: '', message: `"${text}" is not a number of seconds` }])
  return value
}
