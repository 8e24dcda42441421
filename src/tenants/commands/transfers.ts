/** Commands of backups, restores, clones and moves. */
import type { CommandInput } from '../../kernel/api/commands.ts'
import { itemFailure } from '../../kernel/api/item-failure.ts'
import { count } from '../../kernel/api/option-values.ts'
import { commandsOf } from '../../kernel/api/projection.ts'
import { mapConcurrent } from '../../kernel/base/concurrency.ts'
import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { carriedOut, detach, failureOf } from '../operations/transfer-wait.ts'
import { transferOperations } from '../operations/transfers.ts'
import { command } from '../part.ts'
import type { Tenants } from '../tenants.ts'
import { downloaded, downloadText } from '../transfers/backups/download.ts'
import type { DueStep } from '../transfers/backups/scheduler.ts'

const id = { name: 'id', summary: 'id of the tenant', required: true }
const backupId = { name: 'backup', summary: 'id of the backup', required: true }

export const transferCommands = [
  ...commandsOf(transferOperations, 'tenant:backup', 'tenant:backup:list', 'tenant:backup:show'),
  command({
    name: 'tenant:backup:run',
    changesStorage: true,
    summary: 'Create due backups of all tenants, and delete old scheduled ones',
    options: [
      { flags: '--dry-run', summary: 'only list them' },
      { flags: '--concurrency <count>', summary: 'number of concurrent tenants', parse: count, default: 2 },
      detach,
    ],
    run: runDue,
  }),
  ...commandsOf(transferOperations, 'tenant:backup:restore'),
  command({
    name: 'tenant:backup:download',
    changesStorage: false,
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
    changesStorage: true,
    summary:
      'Register a file in the backup storage as a backup, for example after the backoffice was restored from a dump',
    arguments: [id, { name: 'file', summary: 'name of the file in the finding of the doctor', required: true }],
    run: async ({ transfers }, { args, terminal }) => {
      terminal.record({ ...(await transfers.backups.registerArchive(args.id ?? '', args.file ?? '')) })
    },
  }),
  ...commandsOf(
    transferOperations,
    'tenant:backup:delete',
    'tenant:clone',
    'tenant:move',
    'transfer:list',
    'tenant:transfer:list',
    'tenant:transfer:show',
    'tenant:transfer:cancel',
  ),
]

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
        const { tenantId } = step
        if (!options.detach) await carriedOut(transfers, { tenantId, id: backupId }, { signal, show: () => undefined })
        const failure = failureOf(await transfers.get(tenantId, backupId))
        if (failure) throw failure
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
