/** The attention list: conditions of all parts that an operator should look at. Each process caches it for some seconds. */
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import {
  ATTENTION_SEVERITIES,
  type AttentionResult,
  type AttentionSeverity,
  type AttentionSource,
} from '../../kernel/shares/contributions.ts'
import { failedOf, isReadable, type ShareResult } from '../../kernel/shares/shares.ts'

/** Of one kind. */
const MAX_ENTRIES = 50
const CACHED_MS = 5_000
const CACHED_TENANTS = 1_000

const moment = z.iso.datetime()
const severity = z.enum(ATTENTION_SEVERITIES)

const AttentionEntry = z
  .object({
    kind: z.string().meta({ description: 'Kind of the condition', example: 'installationFailed' }),
    severity,
    tenantId: z.string().nullable().meta({ description: 'Null for a condition of no single tenant' }),
    title: z.string(),
    since: moment.nullable().meta({ description: 'Start of the condition; null if it is unknown' }),
    count: z.int().meta({ description: 'Number of objects in this condition, such as failed deliveries' }),
    operation: z.string().meta({ description: 'Operation that shows the objects', example: 'tenants.get' }),
    params: z.record(z.string(), z.string()).meta({ description: 'Parameters of its path, query and body' }),
  })
  .meta({ id: 'AttentionEntry' })

export const AttentionList = z
  .object({
    data: z
      .array(AttentionEntry)
      .meta({ description: 'The worst first, then the longest lasting; at most 50 of a kind' }),
    totals: z
      .array(z.object({ kind: z.string(), severity, total: z.int() }))
      .meta({ description: 'Number of all entries of each kind that has any' }),
    failed: z
      .array(z.string())
      .meta({ description: 'Kinds that could not be read in time; their entries are missing' }),
    asOf: moment.meta({ description: 'Time of the oldest read result; results are cached for 5 seconds' }),
  })
  .meta({ id: 'AttentionList' })
export type AttentionList = z.output<typeof AttentionList>

export interface AttentionFilter {
  readonly kind?: string | undefined
  readonly severity?: AttentionSeverity | undefined
  readonly tenantId?: string | undefined
}

interface Read {
  readonly at: Date
  readonly results: readonly ShareResult<Pick<AttentionSource, 'name' | 'severity'>, AttentionResult>[]
}

export class Attention {
  readonly #kernel: Pick<Kernel, 'shares' | 'clock'>
  readonly #cached = new LRUCache<string, Promise<Read>>({ max: CACHED_TENANTS, ttl: CACHED_MS })

  constructor(kernel: Pick<Kernel, 'shares' | 'clock'>) {
    this.#kernel = kernel
  }

  /** @throws E_INVALID_REQUEST for an unknown kind */
  async list({ kind, severity, tenantId }: AttentionFilter = {}): Promise<AttentionList> {
    const kinds = this.#kernel.shares.attention.map(({ name }) => name)
    if (kind !== undefined && !kinds.includes(kind)) {
      throw invalid([{ path: 'kind', message: `must be one of ${kinds.join(', ')}` }])
    }
    const { at, results } = await this.#read(tenantId)
    const wanted = results
      .filter(({ share }) => (kind ?? share.name) === share.name && (severity ?? share.severity) === share.severity)
      .map(({ share, result }) => ({ share, result: result && readableOf(result) }))
    const data = wanted.flatMap(({ share: { name: kind, severity }, result }) =>
      (result?.entries ?? []).slice(0, MAX_ENTRIES).map(({ since, params, ...entry }) => {
        return { kind, severity, ...entry, params: { ...params }, since: since?.toISOString() ?? null }
      }),
    )
    return {
      data: data.toSorted(worstFirst),
      totals: wanted.flatMap(({ share: { name: kind, severity }, result }) =>
        result && result.total > 0 ? [{ kind, severity, total: result.total }] : [],
      ),
      failed: failedOf(wanted),
      asOf: at.toISOString(),
    }
  }

  /** A result with a failure is not cached. */
  #read(tenantId: string | undefined): Promise<Read> {
    const key = tenantId ?? ''
    const cached = this.#cached.get(key)
    if (cached) return cached
    const reading = this.#readAll(tenantId).then((read) => {
      if (failedOf(read.results).length > 0) this.#cached.delete(key)
      return read
    })
    this.#cached.set(key, reading)
    return reading
  }

  async #readAll(tenantId: string | undefined): Promise<Read> {
    const { shares, clock } = this.#kernel
    const now = clock.now()
    const request = { tenantId, limit: MAX_ENTRIES, now }
    return { at: now, results: await shares.read<AttentionSource>(shares.attention, () => request) }
  }
}

/** Without totals by operation, entries beyond the limit are counted only if all others are readable. */
function readableOf({ entries, total, totals }: AttentionResult): AttentionResult {
  const readable = entries.filter(isReadable)
  if (readable.length === entries.length) return { entries, total }
  const counts = Object.entries(totals ?? {}).filter(([operation]) => isReadable({ operation }))
  return { entries: readable, total: totals ? counts.reduce((sum, [, one]) => sum + one, 0) : readable.length }
}

type Entry = z.output<typeof AttentionEntry>

const worstFirst = (a: Entry, b: Entry): number =>
  ATTENTION_SEVERITIES.indexOf(a.severity) - ATTENTION_SEVERITIES.indexOf(b.severity) ||
  compareTexts(a.since ?? 'unknown', b.since ?? 'unknown')

const compareTexts = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
