/** Commands of backups, restores, clones and moves. Each waits for the end and shows progress, unless it is detached. */
import type { CommandInput, Option } from '../../kernel/api/commands.ts'
import { itemFailure } from '../../kernel/api/item-failure.ts'
import { count, json } from '../../kernel/api/option-values.ts'
import { commandsOf } from '../../kernel/api/projection.ts'
import { mapConcurrent } from '../../kernel/base/concurrency.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { BackupIncompatible } from '../isolation/copy.ts'
import { listTenants } from '../operations/tenants.ts'
import { transferOperations } from '../operations/transfers.ts'
import { command } from '../part.ts'
import { TenantNotFound, TenantState } from '../tenant/errors.ts'
import type { Tenants } from '../tenants.ts'
import { ArchiveMissing } from '../transfers/archive/port.ts'
import { downloaded, downloadText } from '../transfers/backups/download.ts'
import type { DueStep } from '../transfers/backups/scheduler.ts'
import { progressText } from '../transfers/execution/progress-text.ts'
import { hasEnded, type Transfer } from '../transfers/model/transfer.ts'
import { ArchivesUnusable, TransferCancelled, TransferFailed } from '../transfers/requests/errors.ts'

const id = { name: 'id', summary: 'id of the tenant', required: true }
const backupId = { name: 'backup', summary: 'id of the backup', required: true }
const isolation: Option = { flags: '--isolation <driver>', summary: 'target driver' }
const placement: Option = { flags: '--placement <name>', summary: 'target PostgreSQL server' }
const detach: Option = { flags: '--detach', summary: 'only start it; a running service carries it out' }

export const transferCommands = [
  command({
    name: 'tenant:backup',
    summary: 'Back up a tenant',
    arguments: [id],
    filter: listTenants,
    options: [{ flags: '--note <text>', summary: 'note, stored with the backup' }, detach],
    run: async ({ transfers }, input) => {
      const { note } = input.options
      const backup = await transfers.backups.create(input.args.id ?? '', { note })
      await ended(transfers, backup.tenantId, backup.id, input)
      input.terminal.record({ ...(await transfers.backups.get(backup.tenantId, backup.id)) })
      await assertNotFailed(transfers, backup.tenantId, backup.id)
    },
  }),
  ...commandsOf(transferOperations, 'tenant:backup:list'),
  command({
    name: 'tenant:backup:run',
    summary: 'Create due backups of all tenants, and delete old scheduled ones',
    options: [
      { flags: '--dry-run', summary: 'only list them' },
      { flags: '--concurrency <count>', summary: 'number of concurrent tenants', parse: count, default: 2 },
      detach,
    ],
    run: runDue,
  }),
  command({
    name: 'tenant:backup:restore',
    summary: 'Restore a tenant from one of its backups, or rehearse it (test restore)',
    arguments: [id, backupId],
    options: [
      { flags: '--rehearse', summary: 'restore into temporary storage, compare, and drop it' },
      isolation,
      placement,
      detach,
    ],
    run: async ({ transfers }, input) => {
      const { rehearse = false, isolation, placement } = input.options
      const { id: tenantId = '', backup = '' } = input.args
      const { createdAt } = await transfers.backups.get(tenantId, backup)
      const question = `Replace the data of ${tenantId} by its data from ${createdAt}?`
      if (!rehearse && !(await input.terminal.confirm(question))) return
      const started = await transfers.backups.restore(tenantId, { backupId: backup, rehearse, isolation, placement })
      await shown(transfers, started.transfer, input)
    },
  }),
  command({
    name: 'tenant:backup:download',
    summary: 'Download the archive of a backup to a file, decrypted',
    arguments: [id, backupId],
    options: [{ flags: '--output <path>', summary: 'a file that does not exist yet', required: true }],
    run: async ({ transfers }, { args, options, terminal, signal }) => {
      const { id: tenantId = '', backup = '' } = args
      const path: string = options.output
      const chunks = await transfers.backups.download(tenantId, backup)
      const { sizeBytes: total } = await transfers.backups.get(tenantId, backup)
      const look = meter()
      const onBytes = (bytes: number) => terminal.progress(downloadText(bytes, total, look))
      const sizeBytes = await downloaded(chunks, path, { signal, onBytes })
      terminal.record({ id: backup, tenantId, output: path, sizeBytes })
    },
  }),
  command({
    name: 'tenant:backup:adopt',
    summary:
      'Register a file in the backup storage as a backup, for example after the backoffice was restored from a dump',
    arguments: [id, { name: 'file', summary: 'name of the file in the finding of the doctor', required: true }],
    run: async ({ transfers }, { args, terminal }) => {
      terminal.record({ ...(await transfers.backups.registerArchive(args.id ?? '', args.file ?? '')) })
    },
  }),
  ...commandsOf(transferOperations, 'tenant:backup:delete'),
  command({
    name: 'tenant:clone',
    summary: 'Clone a tenant into a new one',
    arguments: [id, { name: 'name', summary: 'name of the new tenant', required: true }],
    options: [
      { flags: '--id <id>', summary: 'id of the new tenant; default: a UUIDv7' },
      { flags: '--metadata <json>', summary: 'a JSON object; default: that of the source', parse: json },
      { flags: '--no-data', summary: 'without its rows' },
      detach,
    ],
    run: async (tenants, input) => {
      const { id, metadata, data = true } = input.options
      const started = await tenants.transfers.clone(input.args.id ?? '', {
        id,
        name: input.args.name ?? '',
        metadata,
        data,
      })
      await ended(tenants.transfers, started.tenant.id, started.transfer.id, input)
      input.terminal.record({ ...(await tenants.get(started.tenant.id)) })
      await assertNotFailed(tenants.transfers, started.tenant.id, started.transfer.id)
    },
  }),
  command({
    name: 'tenant:move',
    summary: 'Move a tenant to another driver or server, or back. It is in maintenance during the move',
    arguments: [id],
    options: [
      isolation,
      placement,
      { flags: '--undo', summary: 'back to its former storage; later changes are lost' },
      detach,
    ],
    run: async (tenants, input) => {
      const { transfers } = tenants
      const { undo = false, isolation, placement } = input.options
      const { id = '' } = input.args
      const { isolation: driver, placement: server } = await tenants.get(id)
      const question = undo
        ? `Move ${id} back to its former storage, without later changes?`
        : `Move ${id} from ${driver} on ${server} to ${isolation ?? driver} on ${placement ?? server}? It is in maintenance during the move.`
      if (!(await input.terminal.confirm(question))) return
      await shown(transfers, (await transfers.move(id, { undo, isolation, placement })).transfer, input)
    },
  }),
  ...commandsOf(transferOperations, 'tenant:transfer:list', 'tenant:transfer:cancel'),
]

type TransfersOf = Tenants['transfers']
/** @property terminal shows the progress */
type Waiting = Pick<CommandInput, 'options' | 'signal'> & { readonly terminal?: CommandInput['terminal'] }

async function shown(transfers: TransfersOf, { tenantId, id }: Transfer, input: CommandInput): Promise<void> {
  input.terminal.record({ ...(await ended(transfers, tenantId, id, input)) })
  await assertNotFailed(transfers, tenantId, id)
}

/** Carries the transfer out here, unless a service already does, and waits for its end; or leaves it to a service. */
async function ended(
  transfers: TransfersOf,
  tenantId: string,
  id: string,
  { options, terminal, signal }: Waiting,
): Promise<Transfer> {
  if (options.detach) return transfers.get(tenantId, id)
  const working = transfers.work(id, { isLast: true, signal }).catch((error) => {
    if (!signal.aborted) throw error
  })
  const [transfer] = await Promise.all([
    transfers.settled(tenantId, id, signal, (now) => {
      if (!hasEnded(now.state)) terminal?.progress(progressText(now, new Date()))
    }),
    working,
  ])
  if (signal.aborted && !hasEnded(transfer.state)) {
    terminal?.say(
      `the next worker starts the ${transfer.kind} ${id} again; tenant:transfer:list ${tenantId} shows its progress`,
    )
  }
  signal.throwIfAborted()
  return transfer
}

/** Failure codes that decide the exit code. */
const KNOWN = [
  BackupIncompatible,
  TransferCancelled,
  ArchiveMissing,
  ArchivesUnusable,
  DependencyUnavailable,
  TenantState,
  TenantNotFound,
]

async function assertNotFailed(transfers: TransfersOf, tenantId: string, id: string): Promise<void> {
  const { state, kind, failure } = await transfers.get(tenantId, id)
  if (state !== 'failed' && state !== 'cancelled') return
  const rejection = KNOWN.find(({ code }) => code === failure?.code) ?? TransferFailed
  throw rejection(`The ${kind} failed permanently: ${failure?.message ?? state}`)
}

async function runDue({ transfers }: Tenants, { options, terminal, signal }: CommandInput): Promise<void> {
  const rowOf = (row: DueRow) => ({ ...row })
  const steps = transfers.due()
  if (options.dryRun) return terminal.list(plans(steps), rowOf)
  const failures: unknown[] = []
  const look = meter()
  let finished = 0
  const runStep = async (step: DueStep): Promise<DueRow | undefined> => {
    terminal.progress(`${number(finished)} done${paceText(look(finished))}: ${step.what} a backup of ${step.tenantId}`)
    try {
      const backupId = await transfers.runDueStep(step)
      if (backupId === undefined) return undefined
      if (step.what === 'make') {
        await ended(transfers, step.tenantId, backupId, { options, signal })
        if (!options.detach) await assertNotFailed(transfers, step.tenantId, backupId)
      }
      return { ...planned(step), backupId }
    } catch (error) {
      if (failures.length === 0) failures.push(error)
      return { ...planned(step), ...itemFailure(error) }
    } finally {
      finished++
    }
  }
  await terminal.list(present(mapConcurrent(steps, options.concurrency, runStep, signal)), rowOf)
  signal.throwIfAborted()
  if (failures.length > 0) throw failures[0]
}

interface DueRow {
  readonly id: string
  readonly what: DueStep['what']
  readonly backupId: string | null
  readonly error?: string
}

async function* plans(steps: AsyncIterable<DueStep>): AsyncIterable<DueRow> {
  for await (const step of steps) yield planned(step)
}

async function* present<Value>(values: AsyncIterable<Value | undefined>): AsyncIterable<Value> {
  for await (const value of values) if (value !== undefined) yield value
}

const planned = ({ tenantId, what, backupId }: DueStep): DueRow => ({ id: tenantId, what, backupId })
