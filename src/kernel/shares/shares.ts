/**
 * Shares of parts in one response. Each has a timeout, after which its connections are closed. A share that fails is named, and the
 * results of the others stay.
 */
import { forEachConcurrent } from '../base/concurrency.ts'
import { asSystem, currentContext } from '../base/context.ts'
import { Deadline } from '../base/deadline.ts'
import type { Logger } from '../base/logger.ts'
import type { AccessCheck, AttentionSource, Contributions, Share, TimelineSource } from './contributions.ts'
import type { SearchProvider } from './search.ts'

const TIMEOUT_MS = 1_000
/** Leaves connections of the backoffice to other requests. */
const CONCURRENCY = 4

/** A share with its service. */
export type Bound<One extends Share> = Omit<One, 'read'> & {
  readonly read: (request: RequestOf<One>) => ReturnType<One['read']>
}
type RequestOf<One extends Share> = Parameters<One['read']>[1]
type Results<One extends Share> = ShareResult<Bound<One>, Awaited<ReturnType<One['read']>>>[]

export interface ShareResult<One, Result> {
  readonly share: One
  /** Undefined if the share has failed. */
  readonly result: Result | undefined
}

/** The contributions of all parts. */
export class Shares {
  readonly attention: Bound<AttentionSource>[] = []
  readonly accessChecks: Bound<AccessCheck>[] = []
  readonly timeline: Bound<TimelineSource>[] = []
  readonly searchProviders: Bound<SearchProvider>[] = []
  readonly #log: Logger

  constructor(log: Logger) {
    this.#log = log
  }

  register(
    { attention = [], accessChecks = [], timeline = [], searchProviders = [] }: Contributions,
    service: unknown,
  ): void {
    this.attention.push(...attention.map((one) => bound(one, service)))
    this.accessChecks.push(...accessChecks.map((one) => bound(one, service)))
    this.timeline.push(...timeline.map((one) => bound(one, service)))
    this.searchProviders.push(...searchProviders.map((one) => bound(one, service)))
  }

  /** Reads several shares, a few concurrently, outside of the transaction in progress. The results have the order of the shares. */
  async read<One extends Share>(
    shares: readonly Bound<One>[],
    requestOf: (share: Bound<One>) => RequestOf<One>,
  ): Promise<Results<One>> {
    const results: Results<One> = []
    await forEachConcurrent(shares, CONCURRENCY, async (share, index) => {
      results[index] = { share, result: await this.#readOne(share, requestOf(share)) }
    })
    return results
  }

  async #readOne<One extends Share>({ name, timeoutMs = TIMEOUT_MS, read }: Bound<One>, request: RequestOf<One>) {
    const deadline = new Deadline(timeoutMs, () => new Error(`the share took longer than ${timeoutMs} ms`))
    try {
      return await asSystem(() => deadline.run(async () => read(request)))
    } catch (error) {
      this.#log.warn({ err: error, share: name }, 'a share of a response could not be read')
      return undefined
    } finally {
      deadline.close()
    }
  }
}

const bound = <One extends Share>({ read, ...share }: One, service: unknown): Bound<One> => ({
  ...share,
  read: (request) => read(service, request),
})

/** Whether the caller may call the operation of a result, which reads the object. Callers without a token may. */
export function isReadable({ operation }: { readonly operation: string }): boolean {
  const { grant } = currentContext()
  return !grant || grant.operations.has(operation)
}

/** Names of the shares that have failed. */
export const failedOf = (results: readonly ShareResult<Pick<Share, 'name'>, unknown>[]): string[] =>
  results.flatMap(({ share, result }) => (result === undefined ? [share.name] : []))
