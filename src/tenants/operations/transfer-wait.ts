/** The wait of commands for the end of a backup, restore, clone or move, with its progress. On the database they carry it out themselves. */
import type { Option } from '../../kernel/api/commands.ts'
import type { Waiting, WorkOptions } from '../../kernel/api/operation.ts'
import { DependencyUnavailable, type TenancyError } from '../../kernel/base/errors.ts'
import { BackupIncompatible } from '../isolation/copy.ts'
import { TenantNotFound, TenantState } from '../tenant/errors.ts'
import type { Tenants } from '../tenants.ts'
import { ArchiveMissing } from '../transfers/archive/port.ts'
import { progressText } from '../transfers/execution/progress-text.ts'
import { hasEnded, type Transfer } from '../transfers/model/transfer.ts'
import { ArchivesUnusable, TransferCancelled, TransferFailed } from '../transfers/requests/errors.ts'
import { getTransfer, listTransfers } from './transfer-reads.ts'

export const detach: Option = { flags: '--detach', summary: 'only start it; a running service carries it out' }

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

type Started = NonNullable<Waiting<Transfer>['started']>

/** @param started the transfer of a call  @param result what the command prints; default: the transfer */
export const untilEnded = (started: Started, result?: Waiting<Transfer>['result']): Waiting<Transfer> => ({
  option: detach,
  started,
  isPending: ({ state }) => !hasEnded(state),
  progress: (transfer) => progressText(transfer, new Date()),
  read: ({ tenantId, id }, call) => call(getTransfer, { params: { id: tenantId, transferId: id } }),
  ...(result ? { result } : {}),
  failure: failureOf,
  work: ({ transfers }: Tenants, transfer, options) => carriedOut(transfers, transfer, options),
  interrupted: ({ kind, tenantId, id }) =>
    `The ${kind} ${id} may still run, and a worker continues it. tenant:transfer:list ${tenantId} shows its progress.`,
})

/** The last segment of `Location` is the id of the transfer, or of the backup, which is equal. */
export const ofLocation: Started = ({ headers: { location = '' } }, call) => {
  const [, id = '', transferId = ''] = /\/tenants\/([^/]+)\/\w+\/([^/]+)$/.exec(location) ?? []
  return call(getTransfer, { params: { id, transferId } })
}

/** The clone into a new tenant. */
export const ofNewTenant: Started = async ({ body: { id } }, call) => {
  const { data } = await call(listTransfers, { params: { id }, query: { limit: '1' } })
  return data[0]
}

/** Carries the transfer out here, unless a service already does, and waits for its end. */
export async function carriedOut(
  transfers: Tenants['transfers'],
  { tenantId, id }: Pick<Transfer, 'tenantId' | 'id'>,
  { signal, show }: WorkOptions<Transfer>,
): Promise<void> {
  const working = transfers.work(id, { isLast: true, signal }).catch((error) => {
    if (!signal.aborted) throw error
  })
  await Promise.all([transfers.settled(tenantId, id, signal, show), working])
}

export function failureOf({ state, kind, failure }: Transfer): TenancyError | undefined {
  if (state !== 'failed' && state !== 'cancelled') return undefined
  const rejection = KNOWN.find(({ code }) => code === failure?.code) ?? TransferFailed
  return rejection(`The ${kind} failed permanently: ${failure?.message ?? state}`)
}
