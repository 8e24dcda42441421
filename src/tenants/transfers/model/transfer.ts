/**
 * A transfer: one copy of a tenant into an archive, out of an archive, or between storage locations. All kinds have the
 * same steps (transfers/runner.ts) and the same resource.
 *
 *   kind        from               to                    then
 *   backup      storage            archive               the archive is listed
 *   restore     archive            new storage           the registry switches to it
 *   rehearsal   archive            new storage           both are compared, and the storage is dropped
 *   clone       another's storage  new storage           the new tenant is active
 *   move        storage            new storage, fenced   the registry switches to it
 *   undo        –                  the former storage    the registry switches back
 *
 *   pending ──claimed──► running ──► completed
 *                        │  ▲  └───► failed        permanent error, or attempts exhausted
 *                        │  └─ claimed again after its lease expires: from the start, into other storage
 *                        └─────────► cancelled     on request, or its tenant was deleted
 */
import { z } from 'zod'

export const KINDS = ['backup', 'restore', 'rehearsal', 'clone', 'move', 'undo'] as const
export type Kind = (typeof KINDS)[number]

export const STATES = ['pending', 'running', 'completed', 'failed', 'cancelled'] as const
export type State = (typeof STATES)[number]

export const PHASES = [
  'waiting',
  'closing',
  'making',
  'loading',
  'indexing',
  'migrating',
  'verifying',
  'writing',
  'switching',
  'done',
] as const
export type Phase = (typeof PHASES)[number]

export const Progress = z
  .object({
    tables: z.number().int().meta({ description: 'Tables copied completely' }),
    rows: z.number().int().meta({ description: 'Rows copied; an estimate for the table in progress' }),
    bytes: z.number().int().meta({ description: 'Size of the copied rows as CSV' }),
    estimate: z
      .object({ tables: z.number().int(), rows: z.number().int().nullable() })
      .nullable()
      .meta({ description: 'Estimated size of the copy, as far as known; null before the source was read' }),
  })
  .meta({ id: 'TransferProgress' })
export type Progress = z.output<typeof Progress>

export const NO_PROGRESS: Progress = { tables: 0, rows: 0, bytes: 0, estimate: null }

const moment = z.iso.datetime()

export const Failure = z.object({ code: z.string(), message: z.string() }).nullable()

export const Transfer = z
  .object({
    id: z.uuid(),
    tenantId: z.string(),
    kind: z.enum(KINDS),
    state: z.enum(STATES),
    phase: z.enum(PHASES).meta({ description: 'Current phase, or the last phase of an ended transfer' }),
    progress: Progress,
    isolation: z.string().meta({ description: 'Target isolation driver; for a backup, the source driver' }),
    placement: z.string(),
    backupId: z.uuid().nullable(),
    sourceId: z.string().nullable().meta({ description: 'For a clone, the cloned tenant' }),
    compared: z.enum(['contents', 'counts']).nullable().meta({
      description: 'For a completed rehearsal: `contents`, or `counts` if migrations ran on the restored storage',
    }),
    attempts: z.number().int(),
    createdAt: moment,
    startedAt: moment.nullable(),
    finishedAt: moment.nullable(),
    failure: Failure,
  })
  .meta({ id: 'Transfer' })
export type Transfer = z.output<typeof Transfer>

export const hasEnded = (state: State): boolean => state !== 'pending' && state !== 'running'
