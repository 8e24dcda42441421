/** The timeline of a tenant: pages of all parts, merged by time. It has no table. */
import { z } from 'zod'
import type { PageOf, SortKey } from '../../kernel/api/page.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type {
  TimelineEntry as Contributed,
  TimelineRequest,
  TimelineSource,
} from '../../kernel/shares/contributions.ts'
import { failedOf, isReadable } from '../../kernel/shares/shares.ts'
import type { Registry } from '../registry/registry.ts'

/** After every entry that a list can have. */
const END_OF_TIME = new Date('9999-12-31T00:00:00.000Z')

export const TimelineEntry = z
  .object({
    at: z.iso.datetime(),
    kind: z.string().meta({ description: 'Kind of the entry', example: 'change' }),
    id: z.string().meta({ description: 'Identifier of the entry, unique for its kind' }),
    actor: z.string().nullable().meta({ description: 'Name of the actor; null if it is unknown' }),
    title: z.string(),
    operation: z.string().meta({ description: 'Operation that shows the object', example: 'transfers.get' }),
    params: z.record(z.string(), z.string()).meta({ description: 'Parameters of its path, query and body' }),
  })
  .meta({ id: 'TimelineEntry' })
export type TimelineEntry = z.output<typeof TimelineEntry>

export interface TimelineOptions {
  readonly kind?: string | undefined
  /** Inclusive. */
  readonly from?: Date | undefined
  /** Exclusive. */
  readonly to?: Date | undefined
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

export type Timeline = PageOf<TimelineEntry> & { readonly failed: string[] }

type Row = Contributed & { readonly kind: string }
/** The newest first; entries of one time by kind, then by id. */
const ORDER = { columns: ['at', 'kind', 'id'], direction: 'desc' } as const

export class Timelines {
  readonly #kernel: Pick<Kernel, 'shares' | 'cursors'>
  readonly #registry: Pick<Registry, 'get'>

  constructor(kernel: Pick<Kernel, 'shares' | 'cursors'>, registry: Pick<Registry, 'get'>) {
    this.#kernel = kernel
    this.#registry = registry
  }

  /** @throws E_TENANT_NOT_FOUND, E_INVALID_REQUEST for an unknown kind */
  async list(tenantId: string, { kind, from, to, limit, cursor }: TimelineOptions = {}): Promise<Timeline> {
    const { shares, cursors } = this.#kernel
    const known = shares.timeline.filter(({ name }) => (kind ?? name) === name)
    if (known.length === 0) {
      throw invalid([{ path: 'kind', message: `must be one of ${shares.timeline.map(({ name }) => name).join(', ')}` }])
    }
    await this.#registry.get(tenantId)
    const sources = known.filter(isReadable)
    let failed: string[] = []
    const rows = async (after: SortKey<'at' | 'kind' | 'id'>, most: number): Promise<Row[]> => {
      const results = await shares.read<TimelineSource>(sources, ({ name }) => {
        return { tenantId, before: startOf(name, after, to ?? END_OF_TIME), from, limit: most }
      })
      failed = failedOf(results)
      return results
        .flatMap(({ share, result = [] }) => result.map((entry): Row => ({ ...entry, kind: share.name })))
        .toSorted(newestFirst)
        .slice(0, most)
    }
    const filters = [tenantId, kind, from, to]
    const page = await cursors.keysetPage(
      rows,
      { name: 'timeline', filters, order: ORDER, item: toEntry },
      { limit, cursor },
    )
    return { ...page, failed }
  }
}

/** At the time of the cursor, entries of the kinds before its kind are shown already, those of the kinds after it are not. */
function startOf(
  kind: string,
  { at, kind: last, id }: SortKey<'at' | 'kind' | 'id'>,
  to: Date,
): TimelineRequest['before'] {
  if (at === undefined || last === undefined || id === undefined) return { at: to, id: '' }
  if (kind === last) return { at: new Date(at), id }
  return { at: new Date(Date.parse(at) + Number(kind < last)), id: '' }
}

const newestFirst = (a: Row, b: Row): number =>
  b.at.getTime() - a.at.getTime() || descending(a.kind, b.kind) || descending(a.id, b.id)

/** By UTF-16 code units, which is the order of bytes for ids. */
const descending = (a: string, b: string): number => (a > b ? -1 : Number(a < b))

const toEntry = ({ at, kind, id, actor, title, operation, params }: Row): TimelineEntry => ({
  at: at.toISOString(),
  kind,
  id,
  actor,
  title,
  operation,
  params: { ...params },
})
