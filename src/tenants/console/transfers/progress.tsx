/** Progress of a transfer: the copied rows against the estimate. */
import type { Result } from '../../../console/api/contract.ts'
import { text } from './text.ts'

export type TransferOf = Result<'transfers.get'>
type Phase = TransferOf['phase']

/** A running transfer is read again after this time. */
export const PROGRESS_MS = 1_000

export const hasEnded = ({ state }: Pick<TransferOf, 'state'>): boolean => state !== 'pending' && state !== 'running'

const COPY: readonly Phase[] = ['waiting', 'making', 'loading', 'indexing', 'migrating', 'verifying', 'switching']

/** Phases in their order. */
export const PHASES_OF: Readonly<Record<TransferOf['kind'], readonly Phase[]>> = {
  backup: ['waiting', 'writing', 'switching'],
  restore: COPY,
  rehearsal: COPY.slice(0, -1),
  clone: COPY,
  move: ['waiting', 'closing', ...COPY.slice(1)],
  undo: ['waiting', 'closing', 'switching'],
}

export function TransferProgress({ transfer }: { transfer: TransferOf }) {
  const { progress, kind } = transfer
  const total = progress.estimate?.rows ?? undefined
  if (hasEnded(transfer) && progress.rows === 0) return null
  const max = total
    ? { max: total, value: Math.min(progress.rows, total) }
    : hasEnded(transfer)
      ? { max: 1, value: 1 }
      : {}
  return (
    <label className="progress">
      <span>
        <span>{text.progress(progress)}</span>
        {total !== undefined && <span className="faint">{text.rowsOf(progress.rows, total)}</span>}
      </span>
      <progress {...max} aria-label={`${text.transferOf(kind)}: ${text.progress(progress)}`} />
    </label>
  )
}
