/**
 * A transfer is one copy of a tenant on its way: into an archive, out of one, or from storage to storage. All kinds are carried
 * out by the same steps (transfers/runner.ts) and seen in the same way.
 *
 *   kind        from               to                    and then
 *   backup      storage            archive               the archive is listed
 *   restore     archive            new storage           the directory switches to it
 *   rehearsal   archive            new storage           both are compared, and the storage is dropped
 *   clone       another's storage  new storage           the new tenant is active
 *   move        storage            new storage, fenced   the directory switches to it
 *   undo        –                  the former storage    the directory switches back
 *
 *   pending ──claimed──► running ──► completed
 *                        │  ▲  └───► failed        it cannot succeed, or was tried often enough
 *                        │  └─ claimed again when a lease has run out: from the beginning, into storage of its own
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
    tables: z.number().int().meta({ description: 'Tables that have been copied whole' }),
    rows: z.number().int().meta({ description: 'Rows copied; of the table in progress a guess' }),
    bytes: z.number().int().meta({ description: 'Of those rows as CSV' }),
    estimate: z
      .object({ tables: z.number().int(), rows: z.number().int().nullable() })
      .nullable()
      .meta({ description: 'What there is to copy, as far as it is known; null before it was looked at' }),
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
    phase: z.enum(PHASES).meta({ description: 'What it is doing, or was when it ended' }),
    progress: Progress,
    isolation: z.string().meta({ description: 'The driver it goes to; of a backup, the one it comes from' }),
    placement: z.string(),
    backupId: z.uuid().nullable(),
    sourceId: z.string().nullable().meta({ description: 'Of a clone, the tenant that is cloned' }),
    compared: z.enum(['contents', 'counts']).nullable().meta({
      description:
        'Of a rehearsal that succeeded: `contents`, or `counts` alone when migrations were run on what was restored',
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
